// Typical use of MQTT.js with a broker: `with_mqttjs.js PORT`. Prints `passed` on success.

const assert = require("node:assert");
const mqtt = require("mqtt");

const url = `mqtt://127.0.0.1:${process.argv[2]}`;

// A client whose messages are awaited one by one.
async function start(options) {
  const client = await mqtt.connectAsync(url, { reconnectPeriod: 0, ...options });
  const received = [];
  const waiting = [];
  client.on("message", (topic, payload, packet) => {
    const message = { topic, text: payload.toString(), ...packet, payload };
    const next = waiting.shift();
    if (next) next(message);
    else received.push(message);
  });
  client.next = () => (received.length ? Promise.resolve(received.shift()) : new Promise((next) => waiting.push(next)));
  return client;
}

async function each(protocolVersion) {
  const one = await start({ protocolVersion });
  const other = await start({ protocolVersion });
  for (const qos of [0, 1, 2]) {
    const topic = `js/${protocolVersion}/${qos}`;
    await other.subscribeAsync(topic, { qos });
    const sent = [...Array(100).keys()].map(String);
    await Promise.all(sent.map((text) => one.publishAsync(topic, text, { qos })));
    for (const text of sent) {
      const message = await other.next();
      assert.deepStrictEqual([message.text, message.qos], [text, qos]);
    }
  }
  await one.publishAsync("js/kept", "kept", { qos: 1, retain: true });
  await other.subscribeAsync("js/kept", { qos: 1 });
  const kept = await other.next();
  assert.deepStrictEqual([kept.text, kept.retain], ["kept", true]);
  await one.publishAsync("js/kept", "", { qos: 1, retain: true });
  assert.strictEqual((await other.next()).text, "");
  await other.subscribeAsync("js/will", { qos: 1 });
  const mortal = await start({ protocolVersion, will: { topic: "js/will", payload: "gone", qos: 1 } });
  mortal.stream.destroy();
  assert.strictEqual((await other.next()).text, "gone");
  const lasting = {
    protocolVersion,
    clientId: `js-lasting-${protocolVersion}`,
    clean: false,
    properties: protocolVersion === 5 ? { sessionExpiryInterval: 600 } : undefined,
  };
  const before = await start(lasting);
  await before.subscribeAsync("js/later", { qos: 1 });
  await before.endAsync();
  await one.publishAsync("js/later", "waits", { qos: 1 });
  const after = await mqtt.connect(url, { reconnectPeriod: 0, ...lasting });
  const later = await new Promise((found) => after.on("message", (_, payload) => found(payload.toString())));
  assert.strictEqual(later, "waits");
  await Promise.all([one, other, after].map((client) => client.endAsync()));
}

async function filters() {
  const one = await start({ protocolVersion: 5 });
  const other = await start({ protocolVersion: 5 });
  await other.subscribeAsync("js/filter?k>5", { qos: 1 });
  const where = { userProperties: { $where: "name LIKE 'a%' AND NOT k > 5" }, subscriptionIdentifier: 7 };
  await other.subscribeAsync("js/filter", { qos: 1, properties: where });
  const publish = (text, userProperties) =>
    one.publishAsync("js/filter", text, { qos: 1, properties: { userProperties } });
  await publish("none", { k: "5", name: "b" });
  await publish("many", { k: "6", name: "b" });
  await publish("few", { k: "5", name: "ab" });
  const [first, second] = [await other.next(), await other.next()];
  assert.deepStrictEqual([first.text, second.text], ["many", "few"]);
  assert.deepStrictEqual(second.properties.subscriptionIdentifier, 7);
  assert.strictEqual(second.properties.userProperties.k, "5");
  // The library accepts # and + only as a whole level, so for such a topic filter the condition precedes it.
  const old = await start({ protocolVersion: 4 });
  for (const reader of [other, old]) {
    for (const wrong of ["#?k>5", "js/+?k>5"]) await assert.rejects(reader.subscribeAsync(wrong), /Invalid topic/);
    await reader.subscribeAsync("$where/k > 5 AND sign IN ('%2B', '%23', '%2F')/js/before/#", { qos: 1 });
    await reader.subscribeAsync(`$share/${reader === old}/$where/k = 1/js/before/+`, { qos: 1 });
  }
  const before = (text, userProperties) =>
    one.publishAsync("js/before/it", text, { qos: 1, properties: { userProperties } });
  for (const sign of ["+", "#", "/", "-"]) await before(sign, { k: "6", sign });
  await before("shared", { k: "1" });
  for (const reader of [other, old]) {
    const received = [];
    for (let n = 0; n < 4; n++) received.push((await reader.next()).text);
    assert.deepStrictEqual(received, ["+", "#", "/", "shared"]);
  }
  const near = { userProperties: { where: "k > 5" } };
  await assert.rejects(other.subscribeAsync("js/everything", { qos: 1, properties: near }));
  await Promise.all([one, other, old].map((client) => client.endAsync()));
}

each(4)
  .then(() => each(5))
  .then(filters)
  .then(() => console.log("passed"))
  .catch((error) => {
    console.error(error);
    process.exit(1);
  });
