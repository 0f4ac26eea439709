//! Packets that are encoded once for several clients.

use super::*;

/// Clients of both versions, with a small receive maximum, with a maximum packet size, and with topic aliases. One that is
/// not connected is the last.
fn clients(sessions: &mut Sessions) -> Vec<ClientKey> {
    let all = [
        opening(),
        opening(),
        Opening { version: Version::V3, ..opening() },
        Opening { receive_maximum: 2, ..opening() },
        Opening { most: 60, ..opening() },
        Opening { most_aliases: 1, ..opening() },
        opening(),
    ];
    let mut open = |(n, own)| {
        let opening = Opening { client_id: format!("c{n}").into(), ..own };
        sessions.open(opening, at(0)).0.expect("the broker accepts the connection")
    };
    let opened: Vec<_> = all.into_iter().enumerate().map(&mut open).collect();
    away(sessions, &opened[6], at(0));
    opened.iter().map(|own| own.key).collect()
}

/// The output of a client, and the numbers of messages in flight and in the queue.
type Held = (Vec<u8>, usize, usize);

/// Delivers runs to all clients, in one batch or in a batch for each message and client. Returns what each client has, the
/// number of messages delivered, and the drops.
fn delivered(
    runs: &[&[Arc<Message>]],
    are_together: bool,
) -> (Vec<Held>, u64, Vec<(DropReason, u64)>) {
    let mut sessions = sessions();
    let (keys, mut together) = (clients(&mut sessions), DeliveryBatch::default());
    for run in runs {
        let how = How { qos: run[0].qos, ..How::default() };
        for key in &keys {
            together.add_run(*key, run, how.clone());
            for message in run.iter().filter(|_| !are_together) {
                deliver(&mut sessions, *key, std::slice::from_ref(message), at(0));
            }
        }
    }
    if are_together {
        sessions.deliver(&together, at(0));
    }
    let held = |key: &ClientKey| {
        let session = sessions.get(*key).unwrap();
        let out = session.attachment.as_ref().map_or(Vec::new(), |own| own.out.clone());
        (out, session.inflight.len(), session.queue.len())
    };
    let held = keys.iter().map(held).collect();
    (held, sessions.counters.delivered.count(), dropped(&sessions))
}

#[test]
fn clients_get_what_they_would_get_alone() {
    for delivery in
        [Delivery::AtMostOnce, Delivery::AtLeastOnce(id(1)), Delivery::ExactlyOnce(id(1))]
    {
        let of = |payload: &[u8]| expiring(delivery, payload, Some(5));
        let long = of(&[0; 200]);
        let runs = [&[of(b"1"), of(b"2")][..], &[of(b"3"), long, of(b"4")], &[of(b"5")]];
        assert_eq!(delivered(&runs, true), delivered(&runs, false), "{delivery:?}");
    }
}
