// Speaks the two parts of solc's command line that py-solc-x and forge use: --version and --standard-json.
'use strict';
const fs = require('fs');
const path = require('path');
const solc = require(path.join(__dirname, '..', '..', 'node_modules', 'solc'));

if (process.argv.includes('--version')) {
  // Both callers parse the platform out of this line and know no Emscripten.
  const version = solc.version().replace('.Emscripten.clang', '.Linux.g++');
  process.stdout.write(`solc, the solidity compiler commandline interface\nVersion: ${version}\n`);
} else if (process.argv.includes('--standard-json')) {
  process.stdout.write(solc.compile(fs.readFileSync(0, 'utf8')) + '\n');
} else {
  process.stderr.write('solc: expected --version or --standard-json, got: ' + process.argv.slice(2).join(' ') + '\n');
  process.exitCode = 1;
}
