// Prints the licences of all packages in a bundle: node licences.js METAFILE
const fs = require("fs");
const path = require("path");
const { outputs } = JSON.parse(fs.readFileSync(process.argv[2]));
const inputs = Object.values(outputs).flatMap((one) => Object.keys(one.inputs));
const folders = inputs.map((one) => one.match(/^.*node_modules\/(?:@[^/]+\/)?[^/]+/)?.[0]);
for (const folder of [...new Set(folders.filter(Boolean))].sort()) {
  const { name, version, license } = JSON.parse(fs.readFileSync(path.join(folder, "package.json")));
  const file = fs.readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
  const text = file ? fs.readFileSync(path.join(folder, file), "utf8").trim() : "";
  console.log(`${name} ${version}: ${license}\n\n${text}\n${"-".repeat(80)}\n`);
}
