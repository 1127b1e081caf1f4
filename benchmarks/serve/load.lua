-- Requests from a file (a line each: method, path, body, separated by tabs) at random moments.
-- Arguments: file, mean milliseconds between two requests of one connection, seed.

local requests, at, mean = {}, 0, 0
local threads = 0

function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end

function init(args)
  mean = tonumber(args[2])
  math.randomseed(tonumber(args[3]) + number)
  for line in io.lines(args[1]) do
    local method, path, body = line:match("^([^\t]*)\t([^\t]*)\t(.*)$")
    local headers = { ["Host"] = "127.0.0.1" }
    if body ~= "" then headers["Content-Type"] = "application/json" end
    requests[#requests + 1] = wrk.format(method, path, headers, body)
  end
  at = math.random(#requests)
end

function delay()
  return -mean * math.log(1 - math.random())
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '{"requests": %d, "seconds": %.3f, "p50": %.3f, "p90": %.3f, "p99": %.3f, "p999": %.3f, "max": %.3f, "mean": %.3f, "failed": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(90) / 1e3,
    latency:percentile(99) / 1e3, latency:percentile(99.9) / 1e3, latency.max / 1e3, latency.mean / 1e3,
    e.connect + e.read + e.write + e.status + e.timeout))
end
