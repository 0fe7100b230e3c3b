// An identity provider as companies run it, made of `oidc-provider`: client credentials, JSON Web Tokens for the
// audience "signproxy", RS256 and ES256. Beside it, on a port of its own, what a test does to it.
//
//   node server.mjs <port> <control port> <client secret>      IDP_MODULES=<directory with node_modules>
//
// A token's algorithm and life are part of the resource that is asked for: urn:signproxy:RS256:600.
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';

const [port, controlPort, secret] = process.argv.slice(2);
const find = createRequire(join(process.env.IDP_MODULES, 'here.js'));
const { Provider } = await import(pathToFileURL(find.resolve('oidc-provider')));

const issuer = `http://127.0.0.1:${port}`;
const DOCUMENTS = { '/.well-known/openid-configuration': 'discovery', '/jwks': 'jwks' };
const NO_FAULT = { delay_ms: 0, status: 0, body: '' };

let keys = newKeys();
let answer = newProvider();
let fault = NO_FAULT;
const counters = { discovery: 0, jwks: 0, token: 0 };

// With their private parts: the provider publishes the public ones alone.
function newKeys() {
  const made = { RS256: ['rsa', { modulusLength: 2048 }], ES256: ['ec', { namedCurve: 'P-256' }] };
  return Object.entries(made).map(([alg, [type, options]]) => ({
    ...generateKeyPairSync(type, options).privateKey.export({ format: 'jwk' }),
    kid: randomUUID(),
    alg,
    use: 'sig',
  }));
}

// Keys are fixed at construction, so a rotation is a new provider in the old one's place.
function newProvider() {
  const getResourceServerInfo = (_context, resource) => {
    const [, , alg, seconds] = resource.split(':');
    return {
      scope: 'sign',
      audience: 'signproxy',
      accessTokenFormat: 'jwt',
      accessTokenTTL: Number(seconds),
      jwt: { sign: { alg, kid: keys.find((key) => key.alg === alg).kid } },
    };
  };
  return new Provider(issuer, {
    jwks: { keys },
    clients: ['engineer', 'stranger'].map((name) => ({
      client_id: name,
      client_secret: secret,
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
    })),
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: { enabled: true, getResourceServerInfo },
    },
  }).callback();
}

async function serve(request, response) {
  const document = DOCUMENTS[request.url];
  if (request.url === '/token') counters.token += 1;
  if (document) {
    counters[document] += 1;
    const { delay_ms, status, body } = fault;
    if (delay_ms) await sleep(delay_ms);
    if (status) {
      response.writeHead(status, { 'content-type': 'application/json' }).end(body);
      return;
    }
  }
  await answer(request, response);
}

const controls = {
  // New keys sign from now on; the old ones stay published, for their tokens still live.
  rotate() {
    keys = [...newKeys(), ...keys];
    answer = newProvider();
  },
  // Only the keys that sign now stay published.
  withdraw() {
    keys = keys.slice(0, 2);
    answer = newProvider();
  },
  // From now on key documents come late, or are something else.
  fault(given) {
    fault = { ...NO_FAULT, ...given };
  },
  counters: () => counters,
};

async function control(request, response) {
  let text = '';
  for await (const chunk of request) text += chunk;
  const result = controls[request.url.slice(1)](text ? JSON.parse(text) : {});
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(result ?? {}));
}

createServer(serve).listen(Number(port), '127.0.0.1');
createServer(control).listen(Number(controlPort), '127.0.0.1');
