//! Operations that wait for each other are reported on stderr and by the admin server.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use phalanx::runtime::{DriverChoice, StartContext};
use phalanx::sync::oneshot;
use phalanx::{Call, Graph, sleep};

use phalanx_testkit::http::Client;

use crate::runtime::harness::{on_other_thread, output_of, runtime};
use crate::runtime::on_each_driver;

on_each_driver!(a_cycle_is_reported_at_the_end_of_the_drain_and_served);

fn a_cycle_is_reported_at_the_end_of_the_drain_and_served(driver: DriverChoice) {
    let name = "deadlocks::a_cycle_is_reported_at_the_end_of_the_drain_and_served";
    if let Some(stderr) = output_of(name, driver) {
        let (_, report) =
            stderr.split_once("phalanx: 2 operations wait for each other").expect(&stderr);
        let lines: Vec<_> =
            report.lines().map(|line| line.strip_prefix("phalanx: ").unwrap_or(line)).collect();
        assert!(lines[1].starts_with("  processor 0, stage \"one\": "), "{report}");
        assert!(lines[1].contains(&format!("({}:", file!())), "{report}");
        assert_eq!(lines[2], "    awaits the result of");
        assert!(lines[3].starts_with("  processor 0, stage \"two\": "), "{report}");
        assert!(lines[5] == lines[1] && !report.contains("phalanx: 2"), "{report}");
        return;
    }
    let mut graph = Graph::new();
    let [test, one, two] = ["test", "one", "two"].map(|name| graph.shared(name, ()));
    let (address, is_up) = channel::<SocketAddr>();
    let is_up = Mutex::new(Some(is_up));
    let admin = Some((Ipv4Addr::LOCALHOST, 0).into());
    let runtime = runtime(driver, 1).shutdown_timeout(Duration::from_millis(50)).admin(admin);
    let start = |start: &StartContext| {
        let (control, is_up) = (start.control(), is_up.lock().unwrap().take().unwrap());
        let (to_two, from_one) = oneshot::local::<Call<()>>();
        let (to_one, from_two) = oneshot::local::<Call<()>>();
        to_two.send(one.call(|_| async { _ = from_two.await.unwrap().await }));
        to_one.send(two.call(|_| async { _ = from_one.await.unwrap().await }));
        test.dispatch(move |_| async move {
            sleep(Duration::from_millis(1)).await;
            let get = move || Client::connect(is_up.recv().unwrap()).get("/waits.json").body;
            let answer = String::from_utf8(on_other_thread(get).await).unwrap();
            assert!(answer.contains("\"answered\":1,"), "{answer}");
            assert!(answer.contains("\"stage\":\"two\""), "{answer}");
            control.drain();
        })?;
        Ok(())
    };
    runtime.run_with_ready(graph, start, |up| address.send(up.admin.unwrap()).unwrap()).unwrap();
}
