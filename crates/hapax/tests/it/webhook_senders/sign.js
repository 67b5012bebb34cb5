// Signs a delivery with the official packages, as their providers sign theirs.
// Arguments: provider, secret, body. Prints the headers of the delivery as JSON.
const path = require('node:path');
const { createRequire } = require('node:module');
const { pathToFileURL } = require('node:url');
const peers = createRequire(path.join(process.env.HAPAX_TEST_NPM, 'package.json'));

const [provider, secret, body] = process.argv.slice(2);

const signers = {
  async stripe() {
    const Stripe = peers('stripe');
    const header = new Stripe('sk_test_0').webhooks.generateTestHeaderString({ payload: body, secret });
    return { 'stripe-signature': header };
  },
  async github() {
    // A package of modules: its entry for Node is imported by its path.
    const entry = 'node_modules/@octokit/webhooks-methods/dist-node/index.js';
    const { sign } = await import(pathToFileURL(path.join(process.env.HAPAX_TEST_NPM, entry)));
    return { 'x-hub-signature-256': await sign(secret, body) };
  },
};

signers[provider]().then((headers) => console.log(JSON.stringify(headers)));
