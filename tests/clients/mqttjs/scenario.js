// Publishes and listens with one client of MQTT.js; prints what was heard.
const mqtt = require("mqtt");

const [url, version] = process.argv.slice(2);
const COUNT = 60;
const options = { protocolVersion: Number(version), clean: true };
const heard = [];

async function main() {
  const listener = await mqtt.connectAsync(url, options);
  const done = new Promise((resolve) => {
    listener.on("message", (topic, payload, packet) => {
      heard.push([topic, payload.toString(), packet.qos, packet.retain]);
      if (heard.length === COUNT + 1) resolve();
    });
  });
  const sender = await mqtt.connectAsync(url, {
    ...options,
    will: { topic: "js/will", payload: "gone", qos: 1 },
  });
  await sender.publishAsync("js/kept", "retained", { qos: 1, retain: true });
  await listener.subscribeAsync("js/#", { qos: 2 });
  for (let number = 0; number < COUNT; number += 1) {
    await sender.publishAsync(`js/${number % 3}`, String(number), { qos: number % 3 });
  }
  await done;
  await sender.publishAsync("js/kept", "", { qos: 1, retain: true });
  await sender.endAsync();
  await listener.endAsync();
  console.log(JSON.stringify(heard));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
