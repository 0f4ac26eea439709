//! The same seed gives the same run.
use std::collections::HashSet;
use std::net::SocketAddr;

use phalanx::net::{IoTimeout, Listener, Payload, Stream};
use phalanx::sim::{self, Faults, World};
use phalanx::{Graph, SharedStage};

async fn echo(stream: Stream) {
    let mut head = Vec::new();
    while let Ok(1..) = stream.read(&mut head, IoTimeout::NONE.until_shutdown()).await {
        let payload = Payload { head: std::mem::take(&mut head), ..Payload::default() };
        match stream.write(payload, IoTimeout::NONE).await {
            Ok(memory) => head = memory,
            Err(_) => return,
        }
    }
}

async fn accept(listener: Listener, stage: SharedStage<()>) {
    loop {
        match listener.accept().await {
            Ok(stream) => {
                let _ = stage.dispatch(move |_| echo(stream));
            }
            Err(_) if phalanx::shutdown::is_draining() => return,
            Err(_) => (),
        }
    }
}

fn echo_world(world: &mut World) {
    let address = SocketAddr::from(([10, 0, 0, 1], 7));
    let mut graph = Graph::new();
    let stage = graph.shared("echo", ());
    let listeners = world.listen(address);
    world.set_faults(Faults::random(world.seed()));
    world.program(graph, move |start| {
        let listener = listeners.listener(start)?;
        stage.dispatch(move |_| accept(listener, stage))?;
        Ok(())
    });
    for _ in 0..3 {
        let net = world.net();
        world.client(async move {
            // The network may fail, but it delivers only correct data.
            let Ok(mut client) = net.connect(address).await else { return };
            let sent: Vec<u8> = (0..net.draw(3000)).map(|n| (n % 251) as u8).collect();
            if client.write_all(&sent).await.is_err() {
                return;
            }
            let mut received = Vec::new();
            while received.len() < sent.len() {
                let Ok(1..) = client.read(&mut received).await else { break };
            }
            assert!(sent.starts_with(&received));
        });
    }
}

#[test]
fn the_same_seed_goes_the_same_way() {
    let mut traces = HashSet::new();
    for seed in 0..40 {
        let once = sim::run(seed, echo_world);
        assert_eq!(once, sim::run(seed, echo_world), "with seed {seed}");
        traces.insert(once.trace);
    }
    assert_eq!(traces.len(), 40, "other seeds go other ways");
}

/// A failure is reported once, with its seed. A seed that is not a number is an error.
#[test]
fn the_environment_selects_the_seed() {
    const NAME: &str = "simulation::repeat::the_environment_selects_the_seed";
    const CHILD: &str = "PHALANX_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return sim::explore(3, |world| panic!("intended for {}", world.seed()));
    }
    let failure = |seed: &str| {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", NAME, "--nocapture"]).env(CHILD, "1").env("PHALANX_SEED", seed);
        let output = child.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let last = u64::MAX.to_string();
    let found = failure(&last);
    assert!(found.contains(&format!("intended for {last}")), "{found}");
    assert_eq!(found.matches(&format!("PHALANX_SEED={last} repeats it")).count(), 1, "{found}");
    let found = failure("12x");
    assert!(found.contains("PHALANX_SEED=12x is not a number"), "{found}");
}
