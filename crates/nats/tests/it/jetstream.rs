//! Streams of a real server, and of three that replicate them.

use std::time::Duration;

use phalanx_nats::{Client, Expected, JetStream, JetStreamError, StreamConfig};
use phalanx_testkit::nats::NatsServer;
use phalanx_testkit::tcp::unique_loopback;

use crate::server::{options, run, start};

const LIMIT: Duration = Duration::from_secs(20);

fn streams(client: &Client) -> JetStream {
    JetStream::new(client, "inbox.test", LIMIT)
}

fn config(replicas: u32, per_subject: Option<u32>) -> StreamConfig {
    StreamConfig { name: "journal".into(), subjects: vec!["j.*".into()], replicas, per_subject }
}

/// The payloads of a range.
async fn read(streams: &JetStream, first: u64, last: u64) -> Vec<Vec<u8>> {
    let (mut all, mut range) = (Vec::new(), streams.range("journal", first, last));
    while let Some(stored) = range.next().await.unwrap() {
        assert_eq!((stored.number, &*stored.subject), (first + all.len() as u64, "j.a"));
        all.push(stored.payload);
    }
    all
}

/// The answers are longer than the server accepts from clients.
#[test]
fn messages_of_the_maximum_size_are_read() {
    let Some(server) = NatsServer::start("") else { return };
    let url = server.url();
    run(|stages| async move {
        let client = start(stages, options(&url));
        client.connected().await;
        let streams = streams(&client);
        streams.create(&config(1, None)).await.unwrap();
        // The headers with the condition count.
        let payload = vec![7; client.max_payload().unwrap() - 50];
        streams.append("j.a", Expected::Last(0), &payload).await.unwrap();
        let stored = streams.get("journal", 1).await.unwrap().unwrap();
        assert!(stored.payload == payload);
        assert!(streams.current_last("journal", "j.a").await == Ok(Some(stored)));
        drop(streams);
        client.stop();
    });
}

#[test]
fn messages_are_appended_as_expected_and_read_in_order() {
    let Some(server) = NatsServer::start("") else { return };
    let url = server.url();
    run(|stages| async move {
        let client = start(stages, options(&url));
        client.connected().await;
        let streams = streams(&client);
        assert_eq!(streams.state("journal").await, Err(JetStreamError::NoStream));
        let unmatched = streams.append("j.a", Expected::Any, b"").await;
        assert_eq!(unmatched, Err(JetStreamError::Unavailable));
        let created = streams.create(&config(1, None)).await.unwrap();
        assert_eq!((created.first, created.last, created.replicas), (1, 0, 1));
        streams.create(&config(1, None)).await.unwrap();
        for (filter, is_stored) in [("j.a", true), ("*.*", true), ("k.*", false)] {
            assert_eq!(streams.is_stored(filter).await, Ok(is_stored), "{filter}");
        }
        let other = streams.create(&config(1, Some(1))).await;
        assert!(matches!(other, Err(JetStreamError::Refused(10058, _))), "{other:?}");
        let unreplicated = StreamConfig { name: "other".into(), ..config(3, None) };
        let rejected = streams.create(&unreplicated).await;
        assert!(matches!(rejected, Err(JetStreamError::Refused(..))), "{rejected:?}");
        // Several at once, in order.
        let appended: Vec<_> = (0..100u64)
            .map(|n| streams.append("j.a", Expected::Last(n), &n.to_be_bytes()))
            .collect();
        for (number, appended) in (1..).zip(appended) {
            assert_eq!(appended.await, Ok(number));
        }
        // Of those behind a refused one, none is stored.
        let stale = [99, 100, 101].map(|n| streams.append("j.a", Expected::Last(n), b"x"));
        let [first, second, third] = stale;
        assert_eq!(first.await, Err(JetStreamError::Unexpected));
        assert_eq!((second.await, third.await), (Ok(101), Ok(102)));
        let all = read(&streams, 1, 100).await;
        assert!((0..100).all(|n| all[n] == (n as u64).to_be_bytes()));
        streams.purge("journal", 51).await.unwrap();
        let state = streams.state("journal").await.unwrap();
        assert_eq!((state.first, state.last), (51, 102));
        assert!(state.bytes > 0);
        assert_eq!(streams.get("journal", 50).await, Ok(None));
        assert_eq!(streams.get("journal", 102).await.unwrap().unwrap().payload, b"x");
        streams.delete("journal").await.unwrap();
        assert_eq!(streams.state("journal").await, Err(JetStreamError::NoStream));
        // One message for each subject. A client replaces it if it knows the last sequence number.
        streams.create(&config(1, Some(1))).await.unwrap();
        let replace = |subject, number| {
            streams.append(subject, Expected::LastOfSubject(number), subject.as_bytes())
        };
        assert_eq!((replace("j.a", 0).await, replace("j.b", 0).await), (Ok(1), Ok(2)));
        assert_eq!(replace("j.a", 2).await, Err(JetStreamError::Unexpected));
        assert_eq!(replace("j.a", 1).await, Ok(3));
        let last = streams.last("journal", "j.a").await.unwrap().unwrap();
        assert_eq!((last.number, &*last.payload), (3, &b"j.a"[..]));
        assert_eq!(streams.current_last("journal", "j.a").await, Ok(Some(last)));
        assert_eq!(streams.current_last("journal", "j.c").await, Ok(None));
        let next = streams.current_next("journal", 1, "j.*").await.unwrap().unwrap();
        assert_eq!((next.number, &*next.subject), (2, "j.b"));
        assert_eq!(streams.current_next("journal", 4, "j.*").await, Ok(None));
        let none = streams.current_last("other", "j.a").await;
        assert_eq!(none, Err(JetStreamError::NoStream));
        assert_eq!(streams.get("journal", 1).await, Ok(None));
        assert_eq!(streams.last("journal", "j.c").await, Ok(None));
        streams.purge_subject("journal", "j.a").await.unwrap();
        let remaining =
            streams.next("journal", 1, "j.*").await.unwrap().map(|stored| stored.subject);
        assert_eq!(remaining.as_deref(), Some("j.b"));
        drop(streams);
        client.stop();
    });
}

#[test]
fn replicas_keep_what_was_acknowledged() {
    let hosts = [unique_loopback(), unique_loopback(), unique_loopback()];
    let routes = hosts.map(|host| format!("\"nats://{host}:6222\"")).join(", ");
    let lines = |host| {
        format!(
            "server_name: \"{host}\"\ncluster {{ name: c, listen: \"{host}:6222\", routes: [{routes}] }}"
        )
    };
    let servers = hosts.map(|host| NatsServer::start_at(host, &lines(host)));
    let [Some(first), Some(second), Some(third)] = servers else { return };
    let urls = [&first, &second, &third].map(NatsServer::url);
    let mut first = Some(first);
    run(move |stages| async move {
        let client = start(stages, options(&urls[1]));
        client.connected().await;
        let streams = JetStream::new(&client, "inbox.test", LIMIT / 20);
        // Until the servers have a leader.
        while streams.create(&config(3, None)).await.is_err() {
            phalanx::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(streams.state("journal").await.unwrap().replicas, 3);
        // A stream grows with the servers, and does not shrink.
        let with_replicas = StreamConfig {
            name: "grown".into(),
            subjects: vec!["grown".into()],
            ..config(1, None)
        };
        for (replicas, actual) in [(1, 1), (3, 3), (1, 3)] {
            let config = StreamConfig { replicas, ..with_replicas.clone() };
            // More replicas need time.
            let created = loop {
                match streams.create(&config).await {
                    Err(JetStreamError::Timeout(_)) => (),
                    created => break created,
                }
            };
            assert_eq!(created.map(|state| state.replicas), Ok(actual));
        }
        let mut payloads = Vec::new();
        for number in 0..200u64 {
            if number == 100 {
                // Perhaps the stream's leader.
                drop(first.take());
            }
            let payload = number.to_be_bytes();
            payloads.push(payload.to_vec());
            loop {
                let appended = streams.append("j.a", Expected::Last(number), &payload).await;
                let stored = match appended {
                    Ok(stored) => Ok(Some(stored)),
                    // It may be stored by an earlier attempt.
                    Err(_) => streams
                        .get("journal", number + 1)
                        .await
                        .map(|stored| stored.map(|stored| stored.number)),
                };
                if stored == Ok(Some(number + 1)) {
                    break;
                }
            }
        }
        assert_eq!(read(&streams, 1, 200).await, payloads);
        drop(streams);
        client.stop();
    });
    drop((second, third));
}
