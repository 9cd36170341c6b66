// Bundles src/main.ts and style.css into the one page. Its policy names the digests of exactly this script and style.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const at = (...parts) => join(here, ...parts);
const digest = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

const options = { bundle: true, target: "es2022", charset: "ascii", write: false, legalComments: "none" };
if (process.argv.includes("--tests")) {
  await build({ ...options, write: true, platform: "node", format: "esm", entryPoints: [at("src", "fold.test.ts")],
    outdir: at("built"), outExtension: { ".js": ".test.mjs" } });
} else {
  const bundle = await build({ ...options, minify: true, format: "iife", entryPoints: [at("src", "main.ts")] });
  const style = await build({ ...options, minify: true, entryPoints: [at("src", "style.css")] });
  const script = bundle.outputFiles[0].text.trim().replaceAll("</script", "<\\/script");
  const rules = style.outputFiles[0].text.trim();
  const policy = `default-src 'none'; script-src ${digest(script)}; style-src ${digest(rules)}; img-src data:; ` +
    "base-uri 'none'; form-action 'none'";
  const page = readFileSync(at("src", "page.html"), "utf8")
    .replace("HIGHWATER_POLICY", () => policy)
    .replace("HIGHWATER_STYLE", () => rules)
    .replace("HIGHWATER_SCRIPT", () => script);
  writeFileSync(process.argv[2], page);
}
