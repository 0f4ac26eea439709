//! `phalanx-bench fibre`: the cost of fibres compared with `async` operations.
//!
//! Both arms do the same on the same stage of one processor, in turn. The echo runs through real sockets; its cost is
//! the processor time of the server's thread.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Args;
use phalanx::fibre::{LocalFibres, net};
use phalanx::net::{IoTimeout, Listeners, Stream};
use phalanx::{Graph, Runtime, yield_now};
use phalanx_core::{Processor, SharedStage};

use crate::error::Error;
use crate::measure::{
    Clock, Quartiles, Rounds as _, Spread, Stretch, Taken, record, rounds, thread_time,
};

/// Operations of a cohort.
const COHORT: usize = 64;

/// Connections of the echo.
const CONNECTIONS: usize = 64;

/// Bytes of an echoed message.
const MESSAGE: usize = 64;

/// Measure suspending, starting, idle and echoing fibres, and async operations.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Number of measurements per arm; at least 7
    #[arg(long, default_value_t = 11)]
    pub(crate) rounds: usize,
    /// Number of idle fibres
    #[arg(long, default_value_t = 100_000)]
    pub(crate) idle: usize,
    /// Less of everything: only checks that it runs
    #[arg(long)]
    pub(crate) quick: bool,
}

record! {
    /// Medians over the rounds, and their ratios.
    pub(crate) struct Report, fn new(taken: Taken<[f64; 8]>, rounds: usize, idle: usize, idle_fibre_bytes: f64) where {
        let Taken { rounds: taken, noisy } = taken;
        let arm = |n: usize| taken.median(|figures| figures[n]);
        let ratios = |n: usize| taken.each(|figures| figures[n + 1] / figures[n]);
    } {
        /// An async operation suspends and is resumed in the next cohort.
        suspend_async_ns: f64 => "ns per suspension of an async operation", 1 = arm(0);
        /// A fibre does the same.
        suspend_fibre_ns: f64 => "of a fibre", 1 = arm(1);
        /// Median of the rounds' ratios.
        suspend_ratio: f64 => "fibre over async", 2 = ratios(0);
        /// An async operation awaits a call of the same stage.
        call_async_ns: f64 => "ns per awaited call of an async operation", 1 = arm(2);
        /// A fibre waits for one.
        call_fibre_ns: f64 => "of a fibre", 1 = arm(3);
        /// Median of the rounds' ratios.
        call_ratio: f64 => "fibre over async", 2 = ratios(2);
        /// Dispatched and run to its end, without suspending.
        start_async_ns: f64 => "ns per async operation from start to end", 1 = arm(4);
        /// A fibre does the same.
        start_fibre_ns: f64 => "per fibre", 1 = arm(5);
        /// The memory of a suspended fibre, with its stack, its page table and its operation.
        idle_fibre_bytes: f64 => "bytes of an idle fibre", 0;
        idle: usize => "idle fibres", 0;
        /// Processor time per message of an echo server of async operations.
        echo_async_us: f64 => "µs of processor time per message of an async echo", 2 = arm(6);
        /// A server of fibres.
        echo_fibre_us: f64 => "of a fibre echo", 2 = arm(7);
        /// Median of the rounds' ratios.
        echo_ratio: f64 => "fibre over async", 2 = ratios(6);
        /// Quartiles of the three ratios.
        spread: Spread = Quartiles;
        rounds: usize => "rounds", 0;
        /// Rounds among these that were kept although other processes used the machine.
        noisy_rounds: usize = noisy;
    }
}

pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let rounds = options.rounds.max(7);
    let (suspensions, messages, idle) = match options.quick {
        true => (6_400, 2_000, 1_000),
        false => (640_000, 60_000, options.idle),
    };
    let one = One::new();
    let stage = one.stage;
    let call = move || stage.call(|_| async {});
    let idle_fibre_bytes = one.idle(idle)?;
    let round = || {
        Ok::<_, Error>([
            one.suspend(suspensions, false, "suspension", yield_now),
            one.suspend(suspensions, true, "suspension", yield_now),
            one.suspend(suspensions, false, "call", call),
            one.suspend(suspensions, true, "call", call),
            one.start(suspensions, false),
            one.start(suspensions, true),
            echo(messages, false)?,
            echo(messages, true)?,
        ])
    };
    // The first round warms up.
    round()?;
    Ok(Report::new(rounds::take(rounds, round)?, rounds, idle, idle_fibre_bytes))
}

/// One processor, driven by the caller.
struct One {
    processor: Processor,
    clock: Clock,
    stage: SharedStage<()>,
}

impl One {
    fn new() -> Self {
        let mut graph = Graph::new();
        let stage = graph.shared("stage", ());
        let processor = graph.build(1).remove(0).build(Box::new(|| ()));
        Self { processor, clock: Clock::new(), stage }
    }

    fn turn(&self) {
        while self.processor.turn(&self.clock).ran > 0 {}
    }

    /// Nanoseconds per suspension of a cohort whose operations wait for `suspensions` futures.
    fn suspend<F: Future + 'static>(
        &self,
        suspensions: usize,
        fibre: bool,
        name: &str,
        future: impl Fn() -> F + Copy + 'static,
    ) -> f64 {
        let stretch = Stretch::begin();
        self.processor.enter(|| {
            for _ in 0..COHORT {
                let each = suspensions / COHORT;
                let started = match fibre {
                    true => self.stage.fibre(move |_, fibre| {
                        (0..each).for_each(|_| _ = fibre.wait(future()));
                    }),
                    false => self.stage.call(move |_| async move {
                        for _ in 0..each {
                            _ = future().await;
                        }
                    }),
                };
                started.detach().expect("below the limit");
            }
            self.turn();
        });
        stretch.end().of(format_args!("{name}, {}", kind(fibre)), suspensions)
    }

    /// Nanoseconds per operation from its start to its end.
    fn start(&self, operations: usize, fibre: bool) -> f64 {
        let stretch = Stretch::begin();
        self.processor.enter(|| {
            for _ in 0..operations / COHORT {
                for _ in 0..COHORT {
                    let started = match fibre {
                        true => self.stage.fibre(|_, _| ()),
                        false => self.stage.call(|_| async {}),
                    };
                    started.detach().expect("below the limit");
                }
                self.turn();
            }
        });
        stretch.end().of(format_args!("start to end, {}", kind(fibre)), operations)
    }

    /// Bytes of memory per suspended fibre.
    fn idle(&self, count: usize) -> Result<f64, Error> {
        let before = memory()?;
        let calls: Vec<_> = self.processor.enter(|| {
            let wait = |_| self.stage.fibre(|_, fibre| fibre.wait(std::future::pending::<()>()));
            let calls = (0..count).map(wait).collect();
            self.turn();
            calls
        });
        let after = memory()?;
        self.processor.enter(|| {
            calls.iter().for_each(phalanx::Call::cancel);
            drop(calls);
            self.turn();
        });
        Ok(after.saturating_sub(before) as f64 / count as f64)
    }
}

/// The resident memory and the page tables of this process, in bytes.
fn memory() -> Result<u64, Error> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
        number.unwrap_or(0u64) << 10
    };
    Ok(value("VmRSS:") + value("VmPTE:"))
}

/// The kind of an operation, in the names of stretches.
fn kind(fibre: bool) -> &'static str {
    if fibre { "fibre" } else { "async" }
}

/// Microseconds of the server's processor time per message. Its clients send one message each, and then wait for all
/// answers.
fn echo(messages: usize, fibre: bool) -> Result<f64, Error> {
    let mut graph = Graph::new();
    let clients = graph.shared("clients", ());
    let listeners = Listeners::bind(SocketAddr::from(([127, 0, 0, 1], 0)), 1)?;
    let address = listeners.local_addr();
    let used = Arc::new(Mutex::new(Duration::ZERO));
    let result = used.clone();
    let load = std::thread::spawn(move || load(address, messages));
    let ran = Runtime::new().processors(1).signals(false).run(graph, move |start| {
        let (listener, control, used) = (listeners.listener(start)?, start.control(), used.clone());
        let left = Rc::new(Cell::new(CONNECTIONS));
        let stretch = Rc::new(Cell::new(Some(Stretch::begin())));
        let begin = thread_time();
        let finish = move || {
            left.set(left.get() - 1);
            if left.get() == 0 {
                *used.lock().expect("no panic") = thread_time() - begin;
                let stretch = stretch.take().expect("the last connection ends once");
                stretch.end().of(format_args!("echo, {}", kind(fibre)), messages);
                control.end();
            }
        };
        clients.dispatch(move |_| {
            listener.accept_each(move |stream| {
                let finish = finish.clone();
                let serving = match fibre {
                    true => clients.fibre(move |_, _| {
                        _ = echo_blocking(&stream.into());
                        finish();
                    }),
                    false => clients.call(move |_| async move {
                        _ = echo_async(stream).await;
                        finish();
                    }),
                };
                serving.detach().expect("below the limit");
            })
        })?;
        Ok(())
    });
    ran.map_err(std::io::Error::other)?;
    load.join().expect("the load does not panic")?;
    let used = *result.lock().expect("no panic");
    Ok(used.as_secs_f64() * 1e6 / messages as f64)
}

async fn echo_async(stream: Stream) -> io::Result<()> {
    let mut bytes = Vec::new();
    while stream.read(&mut bytes, IoTimeout::NONE).await? > 0 {
        bytes = stream.write(bytes, IoTimeout::NONE).await?;
    }
    Ok(())
}

fn echo_blocking(mut stream: &net::Stream) -> io::Result<()> {
    let mut bytes = [0; 1024];
    loop {
        match stream.read(&mut bytes)? {
            0 => return Ok(()),
            count => stream.write_all(&bytes[..count])?,
        }
    }
}

fn load(address: SocketAddr, messages: usize) -> io::Result<()> {
    let connect = |_| TcpStream::connect(address);
    let mut streams = (0..CONNECTIONS).map(connect).collect::<io::Result<Vec<_>>>()?;
    let mut message = [7; MESSAGE];
    for _ in 0..messages / CONNECTIONS {
        for stream in &mut streams {
            stream.write_all(&message)?;
        }
        for stream in &mut streams {
            stream.read_exact(&mut message)?;
        }
    }
    Ok(())
}
