//! Packets that are encoded once for several clients.

use std::num::NonZero;

use super::*;
use crate::model::delivery::Identifiers;

/// Clients of both versions, with a small receive maximum, with a maximum packet size, and with topic aliases. The last
/// client is not connected.
fn clients(sessions: &mut Sessions) -> Vec<ClientKey> {
    let plain = || Opening { receive_maximum: 100, ..opening() };
    let all = [
        plain(),
        plain(),
        Opening { version: Version::V3, ..plain() },
        Opening { receive_maximum: 2, ..plain() },
        Opening { most: 60, ..plain() },
        Opening { most_aliases: 1, ..plain() },
        plain(),
    ];
    let mut open = |(n, options)| {
        let opening = Opening { client_id: format!("c{n}").into(), ..options };
        sessions.open(opening, at(0)).0.expect("the broker accepts the connection")
    };
    let opened: Vec<_> = all.into_iter().enumerate().map(&mut open).collect();
    away(sessions, &opened[6], at(0));
    opened.iter().map(|opened| opened.key).collect()
}

/// The output of a client, and the numbers of messages in flight and in the queue.
type Held = (Vec<u8>, usize, usize);

/// The options of deliveries of a message through different subscriptions.
fn hows(message: &Message) -> [How; 4] {
    let plain = How { qos: message.qos, ..How::default() };
    [
        plain.clone(),
        How { retain: true, ..plain.clone() },
        How { identifiers: Identifiers::of(NonZero::new(7)), ..plain.clone() },
        How { qos: QoS::AtMostOnce, ..plain },
    ]
}

/// The messages of each client, the number of delivered messages, and the drops.
type Delivered = (Vec<Held>, u64, Vec<(DropReason, u64)>);

/// Delivers runs to all clients with all options, in one batch or in a batch for each message and client. Returns also the
/// number of deliveries written from copies.
fn delivered(runs: &[&[Arc<Message>]], are_together: bool) -> (Delivered, usize) {
    let mut sessions = sessions();
    let (keys, mut together) = (clients(&mut sessions), DeliveryBatch::default());
    for run in runs {
        for (how, key) in
            hows(&run[0]).iter().flat_map(|how| keys.iter().map(move |key| (how, key)))
        {
            together.add_run(*key, run, how.clone());
            for message in run.iter().filter(|_| !are_together) {
                let mut alone = DeliveryBatch::default();
                alone.add(*key, message, how.clone());
                sessions.deliver(&alone, at(0));
            }
        }
    }
    if are_together {
        sessions.deliver(&together, at(0));
    }
    let held = |key: &ClientKey| {
        let session = sessions.get(*key).unwrap();
        let out =
            session.attachment.as_ref().map_or(Vec::new(), |attachment| attachment.out.clone());
        (out, session.inflight.len(), session.queue.len())
    };
    let held = keys.iter().map(held).collect();
    let used = sessions.copies.used;
    ((held, sessions.counters.delivered.count(), dropped(&sessions)), used)
}

#[test]
fn clients_get_what_they_would_get_alone() {
    for delivery in
        [Delivery::AtMostOnce, Delivery::AtLeastOnce(id(1)), Delivery::ExactlyOnce(id(1))]
    {
        let of = |payload: &[u8]| expiring(delivery, payload, Some(5));
        let long = of(&[0; 200]);
        let runs = [&[of(b"1"), of(b"2")][..], &[of(b"3"), long, of(b"4")], &[of(b"5")]];
        let ((together, used), (alone, _)) = (delivered(&runs, true), delivered(&runs, false));
        assert_eq!(together, alone, "{delivery:?}");
        assert!(used > 0, "{delivery:?}");
    }
}
