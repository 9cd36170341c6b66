// Bundles src/main.ts and style.css into the one page. Its policy names the digests of exactly this script and style.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const at = (...parts) => join(here, ...parts);
const digest = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

/** One digest over what the page is built from; a test compares it: without Node, it finds a page that is older than its sources. */
function digestOfSources() {
  const whole = createHash("sha256");
  for (const name of [...readdirSync(at("src")).sort().map((file) => join("src", file)), "build.mjs", "package.json", "tsconfig.json"])
    whole.update(`${name}\0`).update(readFileSync(at(name))).update("\0");
  return whole.digest("hex");
}

const options = { bundle: true, target: "es2022", charset: "ascii", write: false, legalComments: "none" };
const bundle = await build({ ...options, minify: true, format: "iife", entryPoints: [at("src", "main.ts")] });
const style = await build({ ...options, minify: true, entryPoints: [at("src", "style.css")] });
const script = bundle.outputFiles[0].text.trim().replaceAll("</script", "<\\/script");
const rules = style.outputFiles[0].text.trim();
const policy = `default-src 'none'; script-src ${digest(script)}; style-src ${digest(rules)}; img-src data:; connect-src HIGHWATER_CONNECT; ` +
  "base-uri 'none'; form-action 'none'";
const page = readFileSync(at("src", "page.html"), "utf8")
  .replace("HIGHWATER_SOURCES", digestOfSources)
  .replace("HIGHWATER_POLICY", () => policy)
  .replace("HIGHWATER_STYLE", () => rules)
  .replace("HIGHWATER_SCRIPT", () => script);
writeFileSync(process.argv[2], page);
