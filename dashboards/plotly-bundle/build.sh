#!/usr/bin/env bash
# Builds the plotly.js of the page anew: make plotly-js. Takes Node and its npm, which reads the network.
# The version is that of the installed plotly.py; whoever uses another type of trace adds it to bundle.js.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
static=$here/../cse_dashboards/page/static
version=$("$here/../../.venv/bin/python" -c 'from plotly.offline import get_plotlyjs_version; print(get_plotlyjs_version())')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here"/bundle.js "$here"/licences.js "$work"
cd "$work"
npm install --no-audit --no-fund --ignore-scripts "plotly.js@$version" esbuild@0.28.1
traces=$(grep -oP 'plotly\.js/lib/\K[a-z]+' bundle.js | sort | paste -sd' ')
node_modules/.bin/esbuild bundle.js --bundle --minify --format=iife --global-name=Plotly \
  --target=es2018 --define:global=window --define:define.amd=false --alias:stream=stream-browserify \
  --loader:.css=empty --legal-comments=none --metafile=made.json --outfile=plotly.min.js \
  --banner:js="/*! plotly.js $version: $traces. MIT, Plotly Technologies Inc.; with others, see plotly.licences.txt */"
node licences.js made.json > plotly.licences.txt
# Compressed here, once: Python has no Brotli of its own.
node -e 'const fs = require("fs"); fs.writeFileSync("plotly.min.js.br", require("zlib").brotliCompressSync(fs.readFileSync("plotly.min.js")))'
cp plotly.min.js plotly.min.js.br plotly.licences.txt "$static"
