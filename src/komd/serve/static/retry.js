// Asks again, with exponential backoff and jitter, while the service does not answer or is too busy to.

const FIRST = 500; // milliseconds before the second attempt
const LONGEST = 30_000;

let notBefore = 0; // until then the service does not want to be asked (Retry-After)
const waiting = new Set();

// Repeats `work` until it succeeds, fails for good, or `signal` is aborted. `trouble` is told in words what is wrong
// after each failed attempt, and null at the end of it.
export async function retried(work, { signal, trouble }) {
  for (let failures = 0; ; failures += 1) {
    while (notBefore > performance.now()) await pause(notBefore - performance.now(), signal);
    try {
      const found = await work();
      trouble(null);
      if (failures) hurry(); // the service is back: others need not wait any longer
      return found;
    } catch (error) {
      if (signal.aborted || !error.passing) throw error;
      const wait = Math.max(error.wait, Math.min(LONGEST, FIRST * 2 ** failures) * (0.5 + Math.random() / 2));
      if (error.wait) notBefore = performance.now() + wait;
      const seconds = Math.ceil(error.wait / 1000);
      trouble(`${error.message} Trying again ${seconds > 1 ? `in ${seconds} seconds ` : ""}…`);
      await pause(wait, signal);
    }
  }
}

function pause(wait, signal) {
  return new Promise((resolve, reject) => {
    const end = (done) => () => {
      clearTimeout(timer);
      waiting.delete(proceed);
      signal.removeEventListener("abort", stop);
      done();
    };
    const proceed = end(resolve);
    const stop = end(() => reject(signal.reason));
    const timer = setTimeout(proceed, wait);
    waiting.add(proceed);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop);
  });
}

// Whoever waits for the next attempt makes it now.
export function hurry() {
  for (const proceed of [...waiting]) proceed();
}

export function hurryAnyway() {
  notBefore = 0;
  hurry();
}

addEventListener("online", hurry);
