// Charges with the official Stripe client for Node, as a program would: base address, key, retries, nothing else.
// Arguments: base address, API key, calls as JSON. Prints a line of JSON for each call.
const path = require('node:path');
const { createRequire } = require('node:module');
const peers = createRequire(path.join(process.env.HAPAX_TEST_NPM, 'package.json'));
const Stripe = peers('stripe');

const [base, apiKey, calls] = process.argv.slice(2);
const { hostname, port } = new URL(base);
const stripe = new Stripe(apiKey, { host: hostname, port, protocol: 'http', maxNetworkRetries: 2 });

async function charge({ amount, key, tries }) {
  for (let left = tries; ; left -= 1) {
    try {
      const options = key ? { idempotencyKey: key } : {};
      const { id, status } = await stripe.charges.create({ amount, currency: 'eur' }, options);
      return { id, status };
    } catch (error) {
      // An answer that broke off is "invalid JSON" to this client, which does not try again: with a key of its own, the
      // program can.
      if (!(error.statusCode >= 400) && left > 1) continue;
      return { error: error.constructor.name, http: error.statusCode, code: error.code, told: error.message };
    }
  }
}

(async () => {
  for (const call of JSON.parse(calls)) console.log(JSON.stringify(await charge(call)));
  // A refusal that the client tried again stays unread, and its connection would keep the process until its time-out.
  process.exit(0);
})();
