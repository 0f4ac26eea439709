//! A node whose lease NATS has lost waits, because another node may have adopted its sessions.

use std::time::Duration;

use phalanx::task::Either;
use phalanx::{select, sleep};
use phalanx_nats::{Access, Client, Expected, JetStream, Options, Passage};
use phalanx_store::Mirror;

use crate::cluster::tests::{JOURNAL, Program, config, journal, lease_of, run, spare_address};
use crate::cluster_names::JournalName;
use crate::kept::lease::Record;

impl Program {
    /// Restores the lease of the journal as adopted, half of a timeout from now, over another gate. Fails if the journal's node
    /// has taken it.
    fn restore_later(&self) {
        let mut cluster = config().cluster;
        cluster.servers = vec![spare_address().to_string().parse().unwrap()];
        let access = Access { servers: cluster.access().unwrap().servers, ..Access::default() };
        let client = Client::new(Options { access, ..Options::default() }, self.files.1);
        let streams = JetStream::new(&client, "restores", cluster.timeout);
        let (stage, lease) = (self.stage, self.names.lease(&journal()));
        let restored = stage.dispatch(move |_| async move {
            let running = client.clone();
            stage.dispatch(move |_| async move { running.run().await }).unwrap();
            sleep(cluster.timeout / 2).await;
            let adopted = lease_of(&JournalName { node: "b".into(), id: 1 });
            let adopted = Record { is_adopted: true, ..adopted };
            let payload = serde_json::to_vec(&adopted).unwrap();
            streams.append(&lease, Expected::LastOfSubject(0), &payload).await.unwrap();
        });
        restored.unwrap();
    }
}

#[test]
fn a_node_whose_lease_was_lost_waits_for_news_of_its_adoption() {
    run(|program| {
        Box::pin(async move {
            program.restore_later();
            let (kept, mirror) = program.mirror("2");
            assert!(mirror.open(JOURNAL, 1, 3).await.is_err() && kept.lost_reason().is_some());
        })
    });
}

/// Its process was cut off, and still renews the lease.
#[test]
fn a_running_node_whose_lease_was_lost_waits_for_news_of_its_adoption() {
    run(|program| {
        Box::pin(async move {
            let (kept, mirror) = program.stored_mirror("1", 1).await;
            program.server.set(Passage::Closed);
            sleep(2 * kept.timeout()).await;
            program.server.lose_streams();
            program.server.set(Passage::Open);
            while !mirror.is_behind() {
                sleep(Duration::from_millis(10)).await;
            }
            program.restore_later();
            assert!(mirror.open(JOURNAL, 1, 2).await.is_err() && kept.lost_reason().is_some());
        })
    });
}

/// The lease may have been restored, and then lost again, while this node was cut off.
#[test]
fn a_node_that_was_cut_off_again_waits_again() {
    run(|program| {
        Box::pin(async move {
            let (kept, mirror) = program.mirror("2");
            let mut opened = mirror.open(JOURNAL, 1, 3);
            let mut wait = async |time| {
                assert!(matches!(select(opened.as_mut(), sleep(time)).await, Either::Right(())));
            };
            wait(kept.timeout() / 2).await;
            program.server.set(Passage::Closed);
            wait(2 * kept.timeout()).await;
            program.server.set(Passage::Open);
            program.restore_later();
            assert!(opened.await.is_err() && kept.lost_reason().is_some());
        })
    });
}
