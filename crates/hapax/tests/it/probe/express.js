// A service behind express-idempotency, as its own guide has it; every charge has a number.
const path = require('node:path');
const { createRequire } = require('node:module');
const peers = createRequire(path.join(process.env.HAPAX_TEST_NPM, 'package.json'));
const express = peers('express');
const { idempotency, getSharedIdempotencyService } = peers('express-idempotency');

const app = express();
app.use(express.json());
app.use(idempotency());
let number = 0;
app.post('/charges', async (req, res) => {
  if (getSharedIdempotencyService().isHit(req)) return;
  await new Promise((done) => setTimeout(done, 200));
  number += 1;
  res.status(201).json({ number });
});
const server = app.listen(0, '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${server.address().port}/charges`);
});
