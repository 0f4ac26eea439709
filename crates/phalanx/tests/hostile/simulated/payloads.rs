//! Payloads whose destructors panic, in simulation.

use phalanx::Graph;
use phalanx::net::IoTimeout;
use phalanx::sim::{self, Faults, Net};

use super::{SEEDS, address, no_client, plain, two};
use crate::harness::read;
use crate::payloads::Drops;

/// More than a connection holds.
const LARGE: usize = 256 << 10;

async fn talks_to_every_connection(net: Net) {
    let mut kept = Vec::new();
    for n in 0..3 {
        let mut client = net.connect(address(0)).await.unwrap();
        let mut bytes = Vec::new();
        match n {
            0 => while let Ok(1..) = client.read(&mut bytes).await {},
            1 => {
                client.read(&mut bytes).await.unwrap();
                client.reset();
                continue;
            }
            _ => client.write_all(b"request").await.unwrap(),
        }
        kept.push(client);
    }
    while let Ok(1..) = kept.pop().unwrap().read(&mut Vec::new()).await {}
}

#[test]
fn writes_end_alone() {
    two(
        plain,
        |here| async move {
            let drops = Drops::default();
            let stream = here.listener.accept().await.unwrap();
            stream.write(drops.bytes(4), IoTimeout::NONE).await.unwrap();
            drop(stream);
            let stream = here.listener.accept().await.unwrap();
            assert!(stream.write(drops.bytes(LARGE), IoTimeout::NONE).await.is_err());
            assert_eq!(drops.count(), 2);
            let (bytes, _stream) = read(here.listener.accept().await.unwrap()).await;
            let bytes = bytes.unwrap();
            assert!(!bytes.is_empty() && b"request".starts_with(&bytes));
        },
        |_, ()| async {},
        talks_to_every_connection,
    );
}

#[test]
fn writes_to_files_end_alone() {
    sim::explore(SEEDS, |world| {
        world.set_processors(1);
        world.set_faults(Faults::NONE);
        let mut graph = Graph::new();
        let (stage, root) = (plain(&mut graph), world.root());
        world.program(graph, move |_| {
            let root = root.clone();
            stage.dispatch(move |_| async move {
                let drops = Drops::default();
                let file = root.create(b"file", false).await.unwrap();
                file.write_at(0, drops.bytes(4)).await.unwrap();
                assert!(file.write_at(u64::MAX, drops.bytes(4)).await.is_err());
                assert_eq!(drops.count(), 2);
                assert_eq!(file.read_at(0, 10).await.unwrap(), b"xxxx");
            })?;
            Ok(())
        });
        world.client(no_client(world.net()));
    });
}
