//! The totals of a program one of whose stages has the same name as the stage of the admin pages.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::mpsc::channel;

use phalanx::Graph;
use phalanx::runtime::DriverChoice;
use phalanx_testkit::eventually;
use phalanx_testkit::tcp::{connect, read_to_end};

use crate::runtime::harness::runtime;
use crate::runtime::on_each_driver;

on_each_driver!(the_totals_count_a_stage_named_admin);

const OPERATIONS: u64 = 500;

/// The completed operations that the admin pages report.
fn operations(admin: SocketAddr) -> u64 {
    let mut client = connect(admin);
    let fields = format!("host: {admin}\r\nconnection: close\r\n");
    let request = format!("GET /placement.json HTTP/1.1\r\n{fields}\r\n");
    client.write_all(request.as_bytes()).unwrap();
    let answer = String::from_utf8(read_to_end(&client)).unwrap();
    let (_, number) = answer.split_once("\"operations\":").unwrap_or_else(|| panic!("{answer}"));
    let number = number.split(|c: char| !c.is_ascii_digit()).next();
    number.unwrap().parse().unwrap()
}

fn the_totals_count_a_stage_named_admin(driver: DriverChoice) {
    let mut graph = Graph::new();
    let [first, last] = ["first", "admin"].map(|name| graph.shared(name, ()));
    let (sender, done) = channel();
    let runtime = runtime(driver, 1).admin(Some("127.0.0.1:0".parse().unwrap()));
    let ran = runtime.run_with_ready(
        graph,
        |_| {
            let sender = sender.clone();
            first.dispatch(move |_| async move {
                for _ in 0..OPERATIONS {
                    last.call(|_| async {}).await.unwrap();
                }
                sender.send(()).unwrap();
            })?;
            Ok(())
        },
        |started| {
            done.recv().unwrap();
            let admin = started.admin.expect("there are admin pages");
            // This includes the first operation.
            let all = OPERATIONS + 1;
            eventually("all operations are counted", || {
                let stages = started.control.processor(0).stages;
                let own = stages[..2].iter().map(|stage| stage.completed.count).sum::<u64>();
                (own == all).then_some(())
            });
            // Requests for the pages are not counted.
            assert_eq!([(); 3].map(|()| operations(admin)), [all; 3]);
            started.control.drain();
        },
    );
    ran.unwrap();
}
