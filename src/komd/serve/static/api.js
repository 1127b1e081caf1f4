// The OpenAPI description as a page, with a form to try each operation.

import { find, make } from "./dom.js";
import { Problem, ask, id } from "./client.js";
import { themed } from "./theme.js";

const resolve = (about, schema) => (schema?.$ref ? about.components.schemas[schema.$ref.split("/").at(-1)] : schema ?? {});

function kind(about, schema) {
  const found = resolve(about, schema);
  if (found.anyOf) return found.anyOf.map((one) => kind(about, one)).filter((one, k, all) => all.indexOf(one) === k).join(" or ");
  if (found.type === "array") return `list of ${kind(about, found.items)}`;
  return schema?.$ref ? schema.$ref.split("/").at(-1) : found.type ?? "anything";
}

function limits(schema) {
  const words = { minimum: "at least", maximum: "at most", minLength: "at least (letters)", maxLength: "at most (letters)", maxItems: "at most (items)", default: "by default" };
  return Object.entries(words).filter(([name]) => schema[name] !== undefined && schema[name] !== null).map(([name, word]) => `${word} ${schema[name]}`).join(", ");
}

function rows(about, named) {
  return named.map(([name, schema, needed]) => make("tr", {},
    make("th", { scope: "row" }, make("code", {}, name), needed ? " (needed)" : ""),
    make("td", {}, kind(about, schema)),
    make("td", { class: "soft" }, [schema.description, limits(resolve(about, schema))].filter(Boolean).join("; ")),
  ));
}

function fields(about, schema, asked) {
  const found = resolve(about, schema);
  return make("table", {}, make("tbody", {}, ...rows(about, Object.entries(found.properties ?? {}).map(([name, one]) => [name, one, asked && found.required?.includes(name)]))));
}

function example(about, schema, depth = 0) {
  const found = resolve(about, schema);
  if (found.examples) return found.examples[0];
  if (found.default !== undefined && found.default !== null) return found.default;
  if (found.anyOf) return example(about, found.anyOf[0], depth);
  if (found.type === "array") return depth > 3 ? [] : [example(about, found.items, depth + 1)];
  if (found.type === "object") return Object.fromEntries((found.required ?? []).map((name) => [name, example(about, found.properties[name], depth + 1)]));
  return { integer: 1, number: 1, boolean: true }[found.type] ?? "text";
}

function operation(about, path, method, one) {
  const parameters = one.parameters ?? [];
  const body = one.requestBody?.content?.["application/json"]?.schema;
  const inputs = new Map();
  const key = `${method}${path}`.replace(/\W/g, "-");
  const text = body && make("textarea", { id: `${key}-body`, spellcheck: "false" }, JSON.stringify(example(about, body), null, 2));
  const output = make("pre", { tabindex: "0", hidden: true, "aria-label": "Answer" });
  const form = make("form", {
    onsubmit: async (event) => {
      event.preventDefault();
      let address = path;
      const query = new URLSearchParams();
      for (const [parameter, input] of inputs) {
        if (parameter.in === "path") address = address.replace(`{${parameter.name}}`, id(input.value));
        else if (input.value !== "") query.set(parameter.name, input.value);
      }
      output.hidden = false;
      try {
        const sent = text ? JSON.parse(text.value) : undefined;
        output.textContent = JSON.stringify(await ask(address + (query.size ? `?${query}` : ""), { body: sent, method: method.toUpperCase() }), null, 2);
      } catch (error) {
        output.textContent = error instanceof Problem ? error.message : String(error);
      }
    },
  },
    ...parameters.map((parameter) => {
      const input = make("input", { type: "text", id: `${key}-${parameter.name}`, required: parameter.required });
      inputs.set(parameter, input);
      return make("div", {}, make("label", { for: input.id }, parameter.name), input);
    }),
    text && make("label", { for: text.id }, "Body"), text,
    make("button", { class: "main", type: "submit" }, "Send"),
  );
  const answer = one.responses["200"]?.content?.["application/json"]?.schema;
  return make("details", { class: "operation" },
    make("summary", {}, make("span", { class: "method" }, method.toUpperCase()), make("code", {}, path), make("span", { class: "soft note" }, (one.description ?? "").split("\n")[0])),
    make("div", {},
      parameters.length ? make("table", {}, make("tbody", {}, ...rows(about, parameters.map((p) => [p.name, { ...p.schema, description: p.description ?? p.schema.description }, p.required])))) : null,
      body && make("h3", {}, "Body"), body && fields(about, body, true),
      answer && make("h3", {}, "Answer"), answer && fields(about, answer, false),
      make("p", { class: "soft note" }, `Otherwise: ${Object.entries(one.responses).filter(([code]) => code !== "200").map(([code, what]) => `${code} ${what.description}`).join(" · ")}`),
      path === "/v1/metrics" ? null : form, output),
  );
}

async function begin() {
  themed();
  const about = await (await fetch("/openapi.json")).json();
  const groups = new Map();
  for (const [path, methods] of Object.entries(about.paths)) {
    for (const [method, one] of Object.entries(methods)) {
      const tag = one.tags?.[0] ?? "other";
      groups.set(tag, [...(groups.get(tag) ?? []), operation(about, path, method, one)]);
    }
  }
  find("operations").replaceChildren(...[...groups].flatMap(([tag, all]) => [make("h2", {}, tag), ...all]));
}

begin();
