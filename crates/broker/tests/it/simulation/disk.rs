//! The disk stops accepting writes. Clients that need a write get an error, and others are served.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use phalanx::select;
use phalanx::sim::{self, Faults};
use phalanx::task::Either;
use phalanx_mqtt::{Ack, Delivery, Packet, PacketId, Properties, Publish, Reason};

use crate::simulation::power_cuts::{Files, start_broker, start_broker_with_reserve, survivors};
use crate::simulation::subscriber::{send_subscribe, subscribe_to};
use crate::simulation::wire::{Lost, Wire};

/// The files of a broker with a durable session that has subscribed to `t`.
fn with_a_session(seed: u64) -> Files {
    let files: Rc<RefCell<Files>> = Rc::default();
    let of_world = files.clone();
    sim::run(seed, |world| {
        start_broker(world, seed, &Files::default());
        let net = world.net();
        world.client(async move {
            let mut wire = Wire::connect(&net, "known").await;
            subscribe_to(&mut wire, &["t"]).await;
            of_world.replace(survivors(&net, 1));
        });
    });
    files.take()
}

#[test]
fn clients_do_not_wait_for_a_stalled_disk() {
    sim::explore_each(30, |seed| {
        let files = with_a_session(seed);
        sim::run(seed, |world| {
            world.set_faults(Faults { full: 1000, ..Faults::NONE });
            start_broker(world, seed, &files);
            let net = world.net();
            world.client(async move {
                let ask =
                    async |name: &str, expiry| match Wire::open_with_expiry(&net, name, expiry)
                        .await
                    {
                        Ok((_wire, reason)) => reason,
                        Err(_) => panic!("{name} gets no answer"),
                    };
                let begun = net.now();
                for name in ["known", "known", "new"] {
                    assert_eq!(ask(name, 60).await, Reason::SERVER_UNAVAILABLE, "{name}");
                }
                // A client without a durable session.
                assert_eq!(ask("guest", 0).await, Reason::SUCCESS);
                // The timeout of the disk is 20 ticks, and the clock may jump by three seconds in each.
                assert!(net.now() - begun < Duration::from_secs(120), "{:?}", net.now() - begun);
                // Shutdown abandons writes that do not succeed.
                net.drain();
            });
        });
    });
}

/// The broker's answer to a publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Taken,
    Refused,
    /// The connection was closed without an answer.
    Closed,
}

async fn publish(wire: &mut Wire, delivery: Delivery, duplicate: bool) -> Result<(), Lost> {
    let payload = [delivery.id().map_or(0, PacketId::get) as u8];
    wire.send(&message(&payload, delivery, duplicate)).await
}

fn message(payload: &[u8], delivery: Delivery, duplicate: bool) -> Packet<'_> {
    Packet::Publish(Publish {
        topic: "t",
        payload,
        delivery,
        retain: false,
        duplicate,
        properties: Properties::NONE,
    })
}

async fn answer(wire: &mut Wire) -> Answer {
    let Ok(received) = wire.next().await else { return Answer::Closed };
    match received.packet() {
        Packet::PubAck(ack) | Packet::PubRec(ack) if ack.reason == Reason::QUOTA_EXCEEDED => {
            Answer::Refused
        }
        Packet::PubAck(ack) | Packet::PubRec(ack) | Packet::PubComp(ack) => {
            assert!(!ack.reason.is_failure(), "{ack:?}");
            Answer::Taken
        }
        Packet::Disconnect(disconnect) => {
            assert_eq!(disconnect.reason, Reason::SERVER_BUSY);
            Answer::Closed
        }
        other => panic!("a publisher gets {other:?}"),
    }
}

fn id(number: u16) -> PacketId {
    PacketId::new(number).unwrap()
}

/// The disk stops accepting writes while a client publishes. The broker neither acknowledges the message as stored nor
/// lets the client wait forever. When the disk works again, the client's session continues, and retransmitted messages
/// arrive once. Returns the answers to this client and to a client without a durable session.
fn publishes_to_no_disk(seed: u64) -> [Answer; 2] {
    let files = with_a_session(seed);
    let answers: Rc<Cell<Option<[Answer; 2]>>> = Rc::default();
    let of_world = answers.clone();
    sim::run(seed, |world| {
        world.set_faults(Faults::NONE);
        start_broker(world, seed, &files);
        let net = world.net();
        world.client(async move {
            let mut writer = Wire::connect(&net, "writer").await;
            let mut guest = Wire::open_with_expiry(&net, "guest", 0)
                .await
                .ok()
                .expect("the broker accepts the connection")
                .0;
            assert!(publish(&mut writer, Delivery::ExactlyOnce(id(1)), false).await.is_ok());
            assert_eq!(answer(&mut writer).await, Answer::Taken);
            net.set_faults(Faults { full: 1000, ..Faults::NONE });
            let begun = net.now();
            // A PUBLISH that is written to the journal, or one that is refused before that.
            let sent = match seed % 2 {
                0 => publish(&mut writer, Delivery::ExactlyOnce(id(2)), false).await,
                _ => writer.send(&Packet::PubRel(Ack::success(id(1)))).await,
            };
            assert!(sent.is_ok());
            assert!(publish(&mut guest, Delivery::AtLeastOnce(id(3)), false).await.is_ok());
            let of_writer = answer(&mut writer).await;
            let of_guest = answer(&mut guest).await;
            assert_ne!(of_guest, Answer::Taken);
            assert_ne!(of_writer, Answer::Taken);
            let elapsed = net.now() - begun;
            // The broker is awake for five seconds of this time; the rest is jumps of the simulated clock.
            assert!(elapsed < Duration::from_secs(600), "{elapsed:?}");
            // Other clients are served.
            let mut other = Wire::open_with_expiry(&net, "other", 0)
                .await
                .ok()
                .expect("the broker accepts the connection")
                .0;
            assert!(publish(&mut other, Delivery::AtMostOnce, false).await.is_ok());
            let alive = other.send(&Packet::PingReq).await.is_ok();
            let received = other.next().await.ok().filter(|_| alive).expect("an answer arrives");
            assert!(matches!(received.packet(), Packet::PingResp));
            net.set_faults(Faults::NONE);
            // The broker notices at its next attempt to write.
            net.sleep(Duration::from_secs(1)).await;
            let mut writer = Wire::connect(&net, "writer").await;
            assert!(writer.is_present);
            assert!(writer.send(&Packet::PubRel(Ack::success(id(1)))).await.is_ok());
            let Ok(received) = writer.next().await else { panic!("no PUBCOMP") };
            assert!(matches!(received.packet(), Packet::PubComp(_)), "{:?}", received.packet());
            assert!(publish(&mut writer, Delivery::ExactlyOnce(id(2)), true).await.is_ok());
            assert_eq!(answer(&mut writer).await, Answer::Taken);
            // Each QoS 2 message arrived once.
            let mut known = Wire::connect(&net, "known").await;
            assert!(publish(&mut writer, Delivery::ExactlyOnce(id(4)), false).await.is_ok());
            assert_eq!(answer(&mut writer).await, Answer::Taken);
            let mut received = Vec::new();
            while received.last() != Some(&4) {
                let Ok(packet) = known.next().await else { panic!("{received:?}") };
                match packet.packet() {
                    Packet::Publish(own) => {
                        received.push(own.payload[0]);
                        if let Delivery::ExactlyOnce(id) = own.delivery {
                            let sent = known.send(&Packet::PubRec(Ack::success(id))).await;
                            assert!(sent.is_ok());
                        } else if let Delivery::AtLeastOnce(id) = own.delivery {
                            assert!(known.send(&Packet::PubAck(Ack::success(id))).await.is_ok());
                        }
                    }
                    Packet::PubRel(ack) => {
                        assert!(known.send(&Packet::PubComp(Ack::success(ack.id))).await.is_ok());
                    }
                    other => panic!("{other:?}"),
                }
            }
            received.retain(|number| ![0, 3].contains(number));
            assert_eq!(received, [1, 2, 4]);
            of_world.set(Some([of_writer, of_guest]));
        });
    });
    answers.get().expect("both got an answer")
}

#[test]
fn publishers_do_not_wait_for_a_stalled_disk() {
    let (closed, refused) = (Cell::new(0), Cell::new(0));
    sim::explore_each(30, |seed| {
        for answer in publishes_to_no_disk(seed) {
            let count = if answer == Answer::Closed { &closed } else { &refused };
            count.set(count.get() + 1);
        }
    });
    let alone = std::env::var_os("PHALANX_SEED").is_some();
    assert!(alone || closed.get() > 0 && refused.get() > 0, "{closed:?} {refused:?}");
}

/// Operations without durable state do not wait for the disk, even when others that do wait arrived at the
/// same time: a QoS 0 message, retained or not, and a subscription of a session that ends with its
/// connection.
#[test]
fn qos_0_does_not_wait_for_the_disk() {
    let waits = Rc::new(Cell::new(0));
    sim::explore_each(60, |seed| {
        let waits = waits.clone();
        let files = with_a_session(seed);
        sim::run(seed, |world| {
            world.set_faults(Faults::NONE);
            world.set_processors(1);
            start_broker(world, seed, &files);
            let net = world.net();
            world.client(async move {
                let mut guests = Vec::new();
                for n in 0..9 {
                    let name = format!("guest {n}");
                    guests.push(
                        Wire::open_with_expiry(&net, &name, 0)
                            .await
                            .ok()
                            .expect("the broker accepts the connection")
                            .0,
                    );
                }
                let mut writer = Wire::connect(&net, "writer").await;
                net.set_faults(Faults { full: 1000, ..Faults::NONE });
                let sent = publish(&mut writer, Delivery::AtLeastOnce(id(1)), false).await;
                assert!(sent.is_ok());
                for (n, guest) in guests.iter_mut().enumerate() {
                    let sent = match n % 3 {
                        0 => publish(guest, Delivery::AtMostOnce, false).await,
                        1 => retain(guest).await,
                        _ => send_subscribe(guest, &["t"]).await,
                    };
                    assert!(sent.is_ok() && guest.send(&Packet::PingReq).await.is_ok());
                }
                let answered = pin!(answer(&mut writer));
                let mut all = pin!(async {
                    for guest in &mut guests {
                        while precedes_pingresp(guest).await {}
                    }
                });
                match select(all.as_mut(), answered).await {
                    Either::Left(()) => waits.set(waits.get() + 1),
                    // State that the other clients stored before has not reached the disk.
                    Either::Right(Answer::Refused) => all.await,
                    Either::Right(_) => panic!("the writer gets its answer before the guests"),
                }
                net.set_faults(Faults::NONE);
            });
        });
    });
    let alone = std::env::var_os("PHALANX_SEED").is_some();
    assert!(alone || waits.get() > 0, "the writer never waits");
}

/// Gives the broker time to serve other clients. Sleeping would not, because the clock may jump.
async fn pings(wire: &mut Wire, count: usize) {
    for _ in 0..count {
        assert!(wire.send(&Packet::PingReq).await.is_ok() && wire.next().await.is_ok());
    }
}

/// A QoS 0 message waits for the disk with another one, and its receiver disconnects.
#[test]
fn messages_that_wait_for_the_disk_are_counted() {
    let lost = Rc::new(Cell::new(0));
    sim::explore_each(30, |seed| {
        let all = lost.clone();
        let files = with_a_session(seed);
        sim::run(seed, |world| {
            world.set_faults(Faults::NONE);
            let broker = start_broker_with_reserve(world, seed, 2000, &files);
            let net = world.net();
            world.client(async move {
                let mut known = Wire::connect(&net, "known").await;
                let Ok((mut guest, _)) = Wire::open_with_expiry(&net, "guest", 0).await else {
                    panic!("guest")
                };
                let Ok((mut other, _)) = Wire::open_with_expiry(&net, "other", 0).await else {
                    panic!("other")
                };
                net.set_faults(Faults { full: 1000, ..Faults::NONE });
                let both = [Delivery::AtMostOnce, Delivery::AtLeastOnce(id(1))];
                let both = both.map(|delivery| message(b"x", delivery, false));
                assert!(guest.send_all(&both).await.is_ok());
                let received = match select(pin!(known.next()), pin!(pings(&mut other, 20))).await {
                    Either::Left(Ok(received)) => matches!(received.packet(), Packet::Publish(_)),
                    _ => false,
                };
                known.reset();
                pings(&mut other, 100).await;
                let is_loss = |label: &str| ["connection_lost", "offline"].contains(&label);
                let count: u64 = broker
                    .dropped()
                    .filter(|dropped| is_loss(dropped.0))
                    .map(|dropped| dropped.1)
                    .sum();
                assert_eq!(count + u64::from(received), 1, "received: {received}");
                all.set(all.get() + count);
                net.set_faults(Faults::NONE);
            });
        });
    });
    let alone = std::env::var_os("PHALANX_SEED").is_some();
    assert!(alone || lost.get() > 0, "no message waits");
}

async fn retain(wire: &mut Wire) -> Result<(), Lost> {
    let (topic, payload, properties) = ("t", &b"9"[..], Properties::NONE);
    let (delivery, retain, duplicate) = (Delivery::AtMostOnce, true, false);
    let publish = Publish { topic, payload, delivery, retain, duplicate, properties };
    wire.send(&Packet::Publish(publish)).await
}

/// Reads one packet. Returns whether more packets precede the PINGRESP.
async fn precedes_pingresp(guest: &mut Wire) -> bool {
    let Ok(received) = guest.next().await else { panic!("no answer") };
    match received.packet() {
        Packet::PingResp => false,
        Packet::SubAck(ack) => {
            assert_eq!(ack.reasons, [Reason::GRANTED_QOS_2.0]);
            true
        }
        Packet::Publish(_) => true,
        other => panic!("{other:?}"),
    }
}

/// If the clock jumps by seconds, as on a suspended machine, the broker does not mistake a working disk for a stalled
/// one.
#[test]
fn no_client_is_refused_after_a_suspend() {
    // With each of these seeds, a broker that used only the clock refused clients.
    for seed in [124, 163, 287, 375, 381] {
        publishes_to_no_disk(seed);
    }
}
