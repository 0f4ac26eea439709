//! A stream in simulation: its owner appends while connections break, until another client seals the stream. The stream
//! has each message that was acknowledged to the owner, once and in order, and nothing follows the seal.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use phalanx::sim::{self, Faults, World};
use phalanx::sleep;
use phalanx_nats::{Client, Expected, JetStream, StreamConfig};

use crate::simulation::{options, program};

const SEAL: &[u8] = b"seal";
/// Pause before an attempt is repeated, and between later messages. Connections may take minutes in simulation.
const PAUSE: Duration = Duration::from_secs(1);

const SUBJECT: &str = "journal.a";

/// Appends numbers until the stream is sealed. Returns how many were acknowledged.
async fn append_until_sealed(streams: JetStream) -> u64 {
    for number in 0u64.. {
        let payload = number.to_be_bytes();
        if number > 50 {
            sleep(PAUSE).await;
        }
        loop {
            if streams.append(SUBJECT, Expected::Last(number), &payload).await.is_ok() {
                break;
            }
            // An earlier attempt may have stored it.
            match streams.get("journal", number + 1).await {
                Ok(Some(stored)) if stored.payload == payload => break,
                Ok(Some(stored)) => {
                    assert_eq!(stored.payload, SEAL);
                    return number;
                }
                Ok(None) | Err(_) => sleep(PAUSE).await,
            }
        }
    }
    unreachable!("the stream is sealed before")
}

/// Seals the stream, perhaps several times. The first seal counts. It has no condition, because the next message of a
/// fast owner would always come before.
async fn seal(streams: &JetStream) {
    while streams.append(SUBJECT, Expected::Any, SEAL).await.is_err() {
        sleep(PAUSE).await;
    }
}

/// The number of the last message.
async fn last(streams: &JetStream) -> u64 {
    loop {
        if let Ok(state) = streams.state("journal").await {
            return state.last;
        }
        sleep(PAUSE).await;
    }
}

fn journal() -> StreamConfig {
    StreamConfig {
        name: "journal".into(),
        subjects: vec!["journal.*".into()],
        replicas: 1,
        per_subject: None,
    }
}

fn world(world: &mut World) {
    world.set_processors(1);
    // As in `simulation.rs`.
    world.set_max_steps(4_000_000);
    if world.draw(2) == 0 {
        let faults = Faults::random(world.seed());
        // With more of them, most connections end before an answer.
        world.set_faults(Faults { full: 0, reset: faults.reset.min(3), ..faults });
    }
    let (cuts, pause) = (world.draw(4), world.draw(60));
    let net = world.net();
    program(world, move |model, stage, resolver| {
        let [owner, rival] = ["owner", "rival"].map(|name| {
            let client = Client::new(options(name), resolver);
            (client.clone(), JetStream::new(&client, name, Duration::from_secs(60)))
        });
        for (client, _) in [&owner, &rival] {
            let client = client.clone();
            stage.dispatch(move |_| async move { client.run().await })?;
        }
        let acknowledged = Rc::new(RefCell::new(None));
        let (of_owner, streams) = (acknowledged.clone(), owner.1);
        stage.dispatch(move |_| async move {
            while streams.create(&journal()).await.is_err() {
                sleep(PAUSE).await;
            }
            *of_owner.borrow_mut() = Some(append_until_sealed(streams).await);
        })?;
        stage.dispatch(move |_| async move {
            for _ in 0..cuts {
                sleep(Duration::from_millis(10)).await;
                model.cut();
            }
        })?;
        let net = net.clone();
        stage.dispatch(move |_| async move {
            let streams = rival.1;
            sleep(Duration::from_millis(pause)).await;
            seal(&streams).await;
            while acknowledged.borrow().is_none() {
                sleep(PAUSE).await;
            }
            let acknowledged = acknowledged.borrow().unwrap_or_default();
            let last = last(&streams).await;
            assert!(last > acknowledged, "there is a seal");
            let mut range = streams.range("journal", 1, last);
            for number in 0..last {
                let stored = loop {
                    if let Ok(stored) = range.next().await {
                        break stored.expect("up to the last");
                    }
                };
                match number < acknowledged {
                    true => assert_eq!(stored.payload, number.to_be_bytes()),
                    false => assert_eq!(stored.payload, SEAL, "nothing else follows the seal"),
                }
            }
            net.drain();
        })?;
        Ok(())
    });
}

#[test]
fn an_owner_learns_that_its_stream_was_sealed_and_loses_nothing() {
    sim::explore(100, world);
}

#[test]
fn the_creation_of_a_stream_changes_only_if_it_was_lost() {
    sim::run(0, |world| {
        world.set_processors(1);
        let net = world.net();
        program(world, move |_, stage, resolver| {
            let client = Client::new(options("creator"), resolver);
            let streams = JetStream::new(&client, "creator", Duration::from_secs(60));
            stage.dispatch(move |_| async move { client.run().await })?;
            let net = net.clone();
            stage.dispatch(move |_| async move {
                streams.client().connected().await;
                let create = async || streams.create(&journal()).await.map(|state| state.created);
                let created = create().await;
                assert!(created.is_ok() && created == create().await, "{created:?}");
                streams.delete("journal").await.unwrap();
                assert_ne!(created, create().await);
                net.drain();
            })?;
            Ok(())
        });
    });
}
