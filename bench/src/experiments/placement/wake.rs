//! The time until resting processors serve: a server of this process has one active processor at low load, a burst
//! arrives, and each response names the processor that served it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use phalanx::net::{IoTimeout, Listeners, Stream};
use phalanx::runtime::{ActiveProcessors, PlacementMode, StartContext, Started};
use phalanx::{Graph, Runtime};

use crate::error::Error;
use crate::measure::{Machine, Run, maximum, median, record};
use crate::system::{install_signal_handlers, interrupted};

use super::{Options, Report};

/// Processor time of a request.
const WORK: Duration = Duration::from_micros(20);
/// Threads of the burst, and the connections of each. Two requests of a connection are in flight, so that the
/// processor always has some.
const THREADS: usize = 2;
const CONNECTIONS: usize = 16;
const IN_FLIGHT: usize = 2;
/// The length of a burst.
const BURST: Duration = Duration::from_millis(500);
/// The longest time until all but one processor rest.
const REST_LIMIT: Duration = Duration::from_secs(120);
/// The time of low load before a burst, after the requests on all connections.
const CALM: Duration = Duration::from_millis(1_500);
/// The pause between two requests of the low load.
const PAUSE: Duration = Duration::from_millis(5);
/// No time.
const NEVER: u64 = u64::MAX;

record! {
    /// Times in milliseconds from the start of a burst, over all bursts.
    pub(crate) struct Row {
        /// The end of the time.
        until: &'static str => "until", 0;
        median_ms: Option<f64> => "median ms", 1;
        /// The largest.
        most_ms: Option<f64> => "most ms", 1;
        /// The bursts in which it happened.
        bursts: usize => "bursts", 0;
        /// All bursts.
        of: usize => "of", 0;
    }
}

/// The times of a burst in nanoseconds, or [`NEVER`].
struct Times {
    begin: Instant,
    /// Another processor is active.
    active: AtomicU64,
    /// Another processor has answered on a new connection.
    new: AtomicU64,
    /// Another processor has answered on one of the connections that one processor had.
    moved: AtomicU64,
}

impl Times {
    fn note(&self, time: &AtomicU64) {
        time.fetch_min(self.begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.begin.elapsed() >= BURST
    }
}

pub(super) fn measure(options: &Options, report: &mut Run<Report>) -> Result<(), Error> {
    install_signal_handlers()?;
    let (cores, processors) = options.runner.cores()?;
    // One processor cannot rest.
    let processors = processors.max(2);
    let listeners = Listeners::bind((Ipv4Addr::LOCALHOST, 0).into(), processors)?;
    let address = listeners.local_addr();
    let mut graph = Graph::new();
    let stage = graph.shared("answer", ());
    let start = |start: &StartContext| {
        let (listener, number) = (listeners.listener(start)?, start.processor() as u8);
        stage.dispatch(move |_| {
            listener.accept_each(move |stream| {
                // If the limit of operations is reached, the connection closes.
                let _ = stage.dispatch(move |_| answer(stream, number));
            })
        })?;
        Ok(())
    };
    let (ended, end) = channel();
    let bursts = options.slices;
    let ready = |up: &Started| {
        let (control, active) = (up.control.clone(), up.active.clone());
        thread::spawn(move || {
            let measured = drive(&active, address, bursts);
            control.drain();
            // The receiver waits.
            let _ = ended.send(measured);
        });
    };
    let runtime = Runtime::new().processors(processors).placement(PlacementMode::On, 1);
    let ran = runtime
        .signals(false)
        .shutdown_timeout(Duration::from_secs(1))
        .run_with_ready(graph, start, ready);
    ran.map_err(Error::process)?;
    let measured = end.recv().map_err(|_| Error::process("no burst was measured"))??;
    type Time = fn(&Times) -> &AtomicU64;
    let rows: [(&'static str, Time); 3] = [
        ("another processor is active", |times| &times.active),
        ("it answers on a new connection", |times| &times.new),
        ("it answers on one that has moved", |times| &times.moved),
    ];
    report.figures.wake.extend(rows.map(|(until, time)| {
        let times = measured.iter().map(|times| time(times).load(Ordering::Relaxed));
        let times: Vec<f64> =
            times.filter(|time| *time != NEVER).map(|time| time as f64 / 1e6).collect();
        let any = !times.is_empty();
        Row {
            until,
            median_ms: any.then(|| median(&times)),
            most_ms: any.then(|| maximum(&times)),
            bursts: times.len(),
            of: measured.len(),
        }
    }));
    report.machine.get_or_insert_with(|| Machine::here(processors, &cores));
    Ok(())
}

/// Answers each byte with the number of the processor.
async fn answer(stream: Stream, number: u8) {
    let mut bytes = Vec::new();
    while let Ok(1..) = stream.read(&mut bytes, IoTimeout::NONE.until_shutdown()).await {
        for byte in &mut bytes {
            let begin = Instant::now();
            while begin.elapsed() < WORK {
                std::hint::spin_loop();
            }
            *byte = number;
        }
        let Ok(memory) = stream.write(bytes, IoTimeout::NONE).await else { return };
        bytes = memory;
        if stream.offer() {
            return;
        }
    }
}

/// Waits until one processor is active, and sends a burst; several times.
fn drive(
    active: &ActiveProcessors,
    address: SocketAddr,
    bursts: usize,
) -> Result<Vec<Times>, Error> {
    let mut calm = connect(address)?;
    let mut measured = Vec::new();
    for number in 1..=bursts {
        // Connections of which all are on the processor that stays active.
        let mut clients = Vec::new();
        for _ in 0..THREADS {
            let few = (0..CONNECTIONS).map(|_| connect(address));
            clients.push(few.collect::<Result<Vec<_>, _>>()?);
        }
        let begin = Instant::now();
        loop {
            interrupted()?;
            // Without any load, nothing changes.
            let rests = ask(&mut calm)? == 0 && active.count() == 1;
            let mut all = clients.iter_mut().flatten();
            if rests && all.try_fold(true, |rest, one| Ok::<_, Error>(ask(one)? == 0 && rest))? {
                break;
            }
            if begin.elapsed() > REST_LIMIT {
                return Err(Error::process("the processors do not rest at low load"));
            }
            thread::sleep(PAUSE);
        }
        let rested = Instant::now();
        while rested.elapsed() < CALM {
            ask(&mut calm)?;
            thread::sleep(PAUSE);
        }
        eprintln!("wake: burst {number} of {bursts}");
        measured.push(burst(active, address, clients)?);
    }
    Ok(measured)
}

/// Sends requests on all connections, and on new ones.
fn burst(
    active: &ActiveProcessors,
    address: SocketAddr,
    clients: Vec<Vec<TcpStream>>,
) -> Result<Times, Error> {
    let [first, new, moved] = [(); 3].map(|()| AtomicU64::new(NEVER));
    let times = Times { begin: Instant::now(), active: first, new, moved };
    thread::scope(|scope| {
        let mut threads: Vec<_> =
            clients.into_iter().map(|few| scope.spawn(|| keep_busy(few, &times))).collect();
        threads.push(scope.spawn(|| {
            while !times.is_over() {
                if ask(&mut connect(address)?)? > 0 {
                    times.note(&times.new);
                }
                thread::sleep(Duration::from_micros(500));
            }
            Ok(())
        }));
        while !times.is_over() {
            if active.count() > 1 {
                times.note(&times.active);
            }
            thread::sleep(Duration::from_micros(100));
        }
        threads.into_iter().try_for_each(|thread| thread.join().expect("a client does not panic"))
    })?;
    Ok(times)
}

/// Keeps requests in flight on all connections.
fn keep_busy(mut clients: Vec<TcpStream>, times: &Times) -> Result<(), Error> {
    for client in &mut clients {
        client.write_all(&[0; IN_FLIGHT])?;
    }
    while !times.is_over() {
        for client in &mut clients {
            let mut answer = [0; 1];
            client.read_exact(&mut answer)?;
            if answer[0] > 0 {
                times.note(&times.moved);
            }
            client.write_all(&[0])?;
        }
    }
    Ok(())
}

fn connect(address: SocketAddr) -> Result<TcpStream, Error> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends a byte; returns the answer, the processor's number.
fn ask(stream: &mut TcpStream) -> Result<u8, Error> {
    let mut answer = [0; 1];
    stream.write_all(&[0])?;
    stream.read_exact(&mut answer)?;
    Ok(answer[0])
}
