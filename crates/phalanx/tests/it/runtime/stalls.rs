//! Stalled operations are reported, and the supervisor does not poll a sleeping program.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::time::Duration;

use phalanx::runtime::DriverChoice;
use phalanx::{Graph, sleep};

use phalanx_testkit::tcp::with_timeouts;

use crate::runtime::harness::{output_of, runtime};
use crate::runtime::on_each_driver;

on_each_driver!(
    reported_while_it_runs_and_after,
    zero_disables_the_reports,
    sleeping_programs_are_not_polled
);

/// Keeps its processor busy.
async fn busy(time: Duration) {
    std::thread::sleep(time);
}

/// Longer than any pause of the machine in a short operation.
const LIMIT: Duration = Duration::from_secs(1);

fn reported_while_it_runs_and_after(driver: DriverChoice) {
    if let Some(stderr) = output_of("stalls::reported_while_it_runs_and_after", driver) {
        let lines: Vec<_> = stderr.lines().filter(|line| line.contains("phalanx: ")).collect();
        let [first, last] = lines[..] else { panic!("two lines, not {lines:?}") };
        let what = "phalanx: processor 0, stage \"work\": it::runtime::stalls::busy (";
        let rest = first.strip_prefix(what).unwrap_or_else(|| panic!("{first:?}"));
        let (site, rest) = rest.split_once(") ").unwrap();
        assert!(site.starts_with(file!()), "{site}");
        assert!(rest.starts_with("has run for ") && rest.ends_with("and does not suspend"));
        let rest = last.strip_prefix(what).unwrap_or_else(|| panic!("{last:?}"));
        let (_, rest) = rest.split_once(") ").unwrap();
        let time = rest.strip_prefix("ran for ").and_then(|rest| rest.strip_suffix(" ms")).unwrap();
        let time: u64 = time.parse().unwrap();
        assert!(time >= 2000, "{time} of 3000 ms");
        return;
    }
    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    let work = graph.shared("work", ());
    let (address, is_up) = channel::<SocketAddr>();
    let is_up = std::sync::Mutex::new(Some(is_up));
    let (sender, receiver) = channel();
    let runtime =
        runtime(driver, 1).stall_threshold(LIMIT).admin(Some((Ipv4Addr::LOCALHOST, 0).into()));
    let start = |start: &phalanx::runtime::StartContext| {
        let (control, sender) = (start.control(), sender.clone());
        let is_up = is_up.lock().unwrap().take().unwrap();
        stage.dispatch(move |_| async move {
            // Short operations are not reported.
            for _ in 0..400 {
                work.call(|_| busy(Duration::from_millis(1))).await.unwrap();
            }
            work.call(|_| busy(3 * LIMIT)).await.unwrap();
            let address = loop {
                match is_up.try_recv() {
                    Ok(address) => break address,
                    Err(_) => sleep(Duration::from_millis(1)).await,
                }
            };
            std::thread::spawn(move || {
                let mut client = with_timeouts(TcpStream::connect(address).unwrap());
                client
                    .write_all(b"GET /snapshot.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    .unwrap();
                let mut seen = Vec::new();
                let mut part = [0; 4096];
                while !String::from_utf8_lossy(&seen).contains("arcs") {
                    let read = client.read(&mut part).unwrap();
                    assert!(read > 0);
                    seen.extend_from_slice(&part[..read]);
                }
                sender.send(String::from_utf8(seen).unwrap()).unwrap();
                control.drain();
            });
        })?;
        Ok(())
    };
    runtime.run_with_ready(graph, start, |up| address.send(up.admin.unwrap()).unwrap()).unwrap();
    let snapshot = receiver.recv().unwrap();
    let (_, snapshot) = snapshot.split_once("\"processors\"").unwrap();
    let work = snapshot.split("\"stage\":\"work\"").nth(1).unwrap();
    assert!(work.split('}').any(|part| part.contains("\"stalled\":1")), "{work}");
    let test = snapshot.split("\"stage\":\"test\"").nth(1).unwrap();
    assert!(test.split("\"stage\"").next().unwrap().contains("\"stalled\":0"));
}

fn zero_disables_the_reports(driver: DriverChoice) {
    if let Some(stderr) = output_of("stalls::zero_disables_the_reports", driver) {
        assert!(!stderr.contains("phalanx: "), "{stderr}");
        return;
    }
    let mut graph = Graph::new();
    let work = graph.shared("work", ());
    let ran = runtime(driver, 1).stall_threshold(Duration::ZERO).run(graph, |start| {
        let control = start.control();
        work.dispatch(|_| busy(Duration::from_millis(300)))?;
        control.drain();
        Ok(())
    });
    ran.unwrap();
}

/// How often a thread of this process has slept.
fn sleeps(thread: rustix::thread::Pid) -> Option<u64> {
    let path = format!("/proc/self/task/{}/status", thread.as_raw_nonzero());
    let status = std::fs::read_to_string(path).ok()?;
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    count.trim().parse().ok()
}

fn sleeping_programs_are_not_polled(driver: DriverChoice) {
    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    // The thread that runs the program becomes its supervisor.
    let supervisor = rustix::thread::gettid();
    let (sender, receiver) = channel();
    let runtime = runtime(driver, 2).stall_threshold(Duration::from_millis(4));
    let ran = runtime.run(graph, |start| {
        if start.processor() > 0 {
            return Ok(());
        }
        let (control, sender) = (start.control(), sender.clone());
        stage.dispatch(move |_| async move {
            sleep(Duration::from_millis(100)).await;
            let before = sleeps(supervisor);
            sleep(Duration::from_millis(600)).await;
            let after = sleeps(supervisor);
            sender.send(before.zip(after)).unwrap();
            control.drain();
        })?;
        Ok(())
    });
    ran.unwrap();
    if let Some((before, after)) = receiver.recv().unwrap() {
        // Continuous polling would wake it 300 times.
        assert!(after - before < 60, "{} times awake", after - before);
    }
}
