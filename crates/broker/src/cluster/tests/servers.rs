//! Several NATS servers, one of which stops answering.

use std::time::Duration;

use phalanx::sleep;
use phalanx_nats::Passage;
use phalanx_store::Mirror;

use crate::cluster::tests::{JOURNAL, config, run, spare_address};
use crate::config::Cluster;
use crate::kept::mirror::StreamMirror;
use crate::kept::state::Kept;
use crate::peers::Peers;

#[test]
fn a_lease_outlives_a_server_that_hangs() {
    run(|program| {
        Box::pin(async move {
            let mut cluster: Cluster = config().cluster;
            cluster.servers.push(spare_address().to_string().parse().unwrap());
            let kept = Kept::new(&cluster, "1", Peers::new("a").status.kept.clone());
            let mirror = StreamMirror::start(kept.clone(), program.stage, program.files, false);
            mirror.open(JOURNAL, 1, 1).await.unwrap();
            mirror.complete().await.unwrap();
            program.server.set(Passage::Frozen);
            for _ in 0..300 {
                sleep(Duration::from_millis(100)).await;
                assert!(kept.is_open(), "{}", kept.last_line());
            }
        })
    });
}
