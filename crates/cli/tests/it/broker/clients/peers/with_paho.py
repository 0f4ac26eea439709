# Typical use of paho-mqtt with a broker: `with_paho.py PORT`. Prints `passed` on success.

import queue
import sys

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

PORT, TIMEOUT = int(sys.argv[1]), 60


class Client:
    """A client whose events are awaited."""

    def __init__(self, name, version, clean=True, will=None, expiry=None):
        self.mine = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, name, protocol=version,
                                **({} if version == mqtt.MQTTv5 else {"clean_session": clean}))
        self.events = {kind: queue.Queue() for kind in ["connect", "subscribe", "publish", "message", "end"]}
        self.mine.on_connect = lambda _c, _u, flags, reason, _p: self.events["connect"].put((flags, reason))
        self.mine.on_subscribe = lambda _c, _u, _m, reasons, properties: self.events["subscribe"].put((reasons, properties))
        self.mine.on_publish = lambda _c, _u, _m, reason, _p: self.events["publish"].put(reason)
        self.mine.on_message = lambda _c, _u, message: self.events["message"].put(message)
        self.mine.on_disconnect = lambda *_: self.events["end"].put(None)
        if will:
            self.mine.will_set(*will)
        options = {}
        if version == mqtt.MQTTv5:
            options["clean_start"] = clean
            if expiry:
                options["properties"] = Properties(PacketTypes.CONNECT)
                options["properties"].SessionExpiryInterval = expiry
        self.mine.connect("127.0.0.1", PORT, 60, **options)
        self.mine.loop_start()
        self.flags, reason = self.next("connect")
        assert reason == 0, reason

    def next(self, kind):
        return self.events[kind].get(timeout=TIMEOUT)

    def subscribe(self, *arguments, **options):
        self.mine.subscribe(*arguments, **options)
        return self.next("subscribe")

    def publish(self, *arguments, **options):
        self.mine.publish(*arguments, **options)
        return self.next("publish")

    def leave(self):
        self.mine.disconnect()
        self.next("end")
        self.mine.loop_stop()

    def vanish(self):
        # Without DISCONNECT, as on a network failure.
        self.mine.loop_stop()
        self.mine.socket().close()


def attributes(**pairs):
    properties = Properties(PacketTypes.PUBLISH)
    properties.UserProperty = list(pairs.items())
    return properties


for version in [mqtt.MQTTv311, mqtt.MQTTv5]:
    # Each QoS, in order.
    one, other = Client(f"one-{version}", version), Client(f"other-{version}", version)
    for qos in [0, 1, 2]:
        topic = f"paho/{version}/{qos}"
        other.subscribe(topic, qos)
        for n in range(100):
            one.mine.publish(topic, str(n), qos)
        received = [other.next("message") for _ in range(100)]
        assert [int(message.payload) for message in received] == list(range(100)), qos
        assert all(message.qos == qos for message in received)
        # Consume the events of these messages.
        for _ in range(100):
            one.next("publish")
    # The retained message arrives first, with the retain flag.
    one.publish("paho/kept", b"kept", 1, retain=True)
    other.subscribe("paho/kept", 1)
    message = other.next("message")
    assert message.retain and message.payload == b"kept"
    one.publish("paho/kept", b"", 1, retain=True)
    assert other.next("message").payload == b""
    # The will of a lost client.
    other.subscribe("paho/will", 1)
    Client(f"mortal-{version}", version, will=("paho/will", b"gone", 1, False)).vanish()
    assert other.next("message").payload == b"gone"
    # A persistent session.
    name = f"lasting-{version}"
    lasting = Client(name, version, clean=False, expiry=600)
    assert not lasting.flags.session_present
    lasting.subscribe("paho/later", 1)
    lasting.leave()
    one.publish("paho/later", b"waits", 1)
    lasting = Client(name, version, clean=False, expiry=600)
    assert lasting.flags.session_present and lasting.next("message").payload == b"waits"
    for client in [one, other, lasting]:
        client.leave()

# Content filters in both of their forms, and an invalid one.
one, other = Client("one", mqtt.MQTTv5), Client("other", mqtt.MQTTv5)
other.subscribe("paho/filter?k>5", 1)
where = Properties(PacketTypes.SUBSCRIBE)
where.UserProperty = ("$where", "name LIKE 'a%' AND NOT k > 5")
where.SubscriptionIdentifier = 7
other.subscribe("paho/filter", options=SubscribeOptions(qos=1), properties=where)
one.publish("paho/filter", b"none", 1, properties=attributes(k="5", name="b"))
one.publish("paho/filter", b"many", 1, properties=attributes(k="6", name="b"))
one.publish("paho/filter", b"few", 1, properties=attributes(k="5", name="ab"))
first, second = other.next("message"), other.next("message")
assert (first.payload, second.payload) == (b"many", b"few")
assert second.properties.SubscriptionIdentifier == [7]
assert ("k", "5") in second.properties.UserProperty
reasons, properties = other.subscribe("paho/filter?k=v&x", 1)
assert reasons[0].is_failure and "column" in properties.ReasonString, (reasons, properties)
# The library accepts # and + only as a whole level, so for such a topic filter the condition precedes it, with these
# characters escaped. Also in MQTT 3.1.1.
old = Client("old", mqtt.MQTTv311)
for reader in [other, old]:
    for wrong in ["#?k>5", "paho/+?k>5"]:
        try:
            reader.mine.subscribe(wrong)
            raise AssertionError(f"{wrong} is taken now")
        except ValueError:
            pass
    reader.subscribe("$where/k > 5 AND sign IN ('%2B', '%23', '%2F')/paho/before/#", 1)
    reader.subscribe(f"$share/group-{reader is old}/$where/k = 1/paho/before/+", 1)
for sign in ["+", "#", "/", "-"]:
    one.publish("paho/before/it", sign.encode(), 1, properties=attributes(k="6", sign=sign))
one.publish("paho/before/it", b"shared", 1, properties=attributes(k="1"))
for reader in [other, old]:
    received = [reader.next("message").payload for _ in range(4)]
    assert received == [b"+", b"#", b"/", b"shared"], received
reasons, properties = other.subscribe("$where/k == 5/paho/before/#", 1)
assert reasons[0].is_failure and "column 4" in properties.ReasonString, (reasons, properties)
where = Properties(PacketTypes.SUBSCRIBE)
where.UserProperty = ("where", "k > 5")
reasons, properties = other.subscribe("paho/everything", options=SubscribeOptions(qos=1), properties=where)
assert reasons[0].is_failure and "`$where`" in properties.ReasonString, (reasons, properties)
old.leave()
# A response is sent to the response topic of its request.
asked = attributes()
asked.ResponseTopic, asked.CorrelationData, asked.MessageExpiryInterval = "paho/answers", b"\x01\xff", 60
other.subscribe("paho/questions", 2)
one.subscribe("paho/answers", 2)
one.mine.publish("paho/questions", b"?", 2, properties=asked)
question = other.next("message").properties
assert question.CorrelationData == b"\x01\xff" and 0 < question.MessageExpiryInterval <= 60
other.mine.publish(question.ResponseTopic, b"!", 2)
assert one.next("message").payload == b"!"
for client in [one, other]:
    client.leave()
print("passed")
