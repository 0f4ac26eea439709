//! Unix sockets and datagrams in simulation.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use phalanx::net::{IoTimeout, Stream, UdpSocket};
use phalanx::shutdown::draining;
use phalanx::sim::{self, Bounds, Faults, World};
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{Graph, select, sleep};

/// A server of numbers, to which clients repeat their requests: each gets its answer, whatever the network loses,
/// duplicates and reorders.
fn server_of_squares(world: &mut World, faults: Faults) {
    world.set_faults(Faults { reset: 0, accept: 0, ..faults });
    world.set_processors(1);
    let address = "10.0.0.1:53".parse().unwrap();
    let mut graph = Graph::new();
    let stage = graph.shared("squares", ());
    world.program(graph, move |_| {
        let socket = Rc::new(UdpSocket::bind(address)?);
        stage.dispatch(move |_| async move {
            let mut buffer = [0; 8];
            let wait = IoTimeout::NONE.until_shutdown();
            while let Ok(received) = socket.recv_from(&mut buffer, wait).await {
                assert!(!received.truncated);
                let number = u64::from(buffer[0]);
                let answer = [[buffer[0]; 8], (number * number).to_le_bytes()].concat();
                let socket = socket.clone();
                let answering = stage.dispatch(move |_| async move {
                    socket.send_to(answer, received.from, IoTimeout::NONE).await.unwrap();
                });
                answering.unwrap();
            }
        })?;
        Ok(())
    });
    let net = world.net();
    world.client(async move {
        let client = net.bind_udp("10.0.0.2:0".parse().unwrap()).unwrap();
        for number in 1..20_u8 {
            let mut answer = [0; 16];
            loop {
                client.send_to(&[number], address).unwrap();
                let late = net.sleep(Duration::from_secs(3));
                let (mut late, mut receive) =
                    (Box::pin(late), Box::pin(client.recv_from(&mut answer)));
                let received =
                    std::future::poll_fn(|context| match receive.as_mut().poll(context) {
                        std::task::Poll::Ready(received) => std::task::Poll::Ready(Some(received)),
                        std::task::Poll::Pending => late.as_mut().poll(context).map(|()| None),
                    })
                    .await;
                drop(receive);
                match received {
                    Some(received) => {
                        assert_eq!(received.unwrap(), (16, address));
                        if answer[0] == number {
                            break;
                        }
                    }
                    None => continue,
                }
            }
            assert_eq!(answer[8..], u64::from(number).pow(2).to_le_bytes());
        }
    });
}

#[test]
fn datagrams_are_repeated_until_they_arrive() {
    sim::explore(100, |world| {
        let faults = Faults::random(world.seed());
        server_of_squares(world, Faults { lost: 300, duplicated: 200, reordered: 300, ..faults });
    });
}

/// Operations and clients connect by path, on any number of processors.
#[test]
fn connections_by_path() {
    sim::explore(100, |world| {
        let mut graph = Graph::new();
        let stage = graph.shared("echo", ());
        let listeners = world.listen_unix("/run/echo");
        let answered_within = Arc::new(AtomicBool::new(false));
        let is_answered_within = answered_within.clone();
        world.program(graph, move |start| {
            let listener = listeners.listener(start)?;
            stage.dispatch(move |_| {
                listener.accept_each(move |stream| {
                    let echo = stage.dispatch(move |_| async move {
                        let (read, write) = stream.into_split();
                        let mut bytes = Vec::new();
                        while let Ok(1..) = read.read(&mut bytes, IoTimeout::NONE).await {
                            bytes = write.write(bytes, IoTimeout::NONE).await.unwrap();
                        }
                    });
                    echo.unwrap();
                })
            })?;
            if start.processor() == 0 {
                let answered_within = answered_within.clone();
                stage.dispatch(move |_| async move {
                    let stream = Stream::connect_unix("/run/echo", IoTimeout::NONE).await.unwrap();
                    stream.write(b"from within".to_vec(), IoTimeout::NONE).await.unwrap();
                    let mut answer = [0; 11];
                    stream.read_exact(&mut answer, IoTimeout::NONE).await.unwrap();
                    assert_eq!(&answer, b"from within");
                    answered_within.store(true, Ordering::Relaxed);
                })?;
            }
            Ok(())
        });
        let net = world.net();
        world.client(async move {
            let none = net.connect_unix("/run/other").await.unwrap_err();
            assert_eq!(none.kind(), std::io::ErrorKind::NotFound);
            let mut client = net.connect_unix("/run/echo").await.unwrap();
            client.write_all(b"over and over").await.unwrap();
            let mut answer = Vec::new();
            while answer.len() < 13 {
                assert!(client.read(&mut answer).await.unwrap() > 0);
            }
            assert_eq!(answer, b"over and over");
            // The program drains when its clients have finished, and then refuses its own connection as well.
            while !is_answered_within.load(Ordering::Relaxed) {
                net.sleep(Duration::from_millis(10)).await;
            }
        });
    });
}

/// The reads that the drain drops are cancelled in the last turn, and the driver returns their completions in parts.
#[test]
fn reads_that_the_drain_drops_leave_nothing() {
    sim::explore(40, |world| {
        let address = "10.0.0.1:80".parse().unwrap();
        world.set_processors(1);
        let mut graph = Graph::new();
        let stage = graph.shared("stage", ());
        let endpoints = world.listen(address);
        world.program(graph, move |start| {
            let listener = endpoints.listener(start)?;
            stage.dispatch(move |_| {
                listener.accept_each(move |stream| {
                    let reads = move |_| async move {
                        let mut bytes = Vec::new();
                        select(stream.read(&mut bytes, IoTimeout::NONE), draining()).await;
                    };
                    stage.dispatch(reads).expect("there is room");
                })
            })?;
            Ok(())
        });
        for _ in 0..6 {
            let net = world.net();
            world.client(async move {
                let Ok(client) = net.connect(address).await else { return };
                net.sleep(Duration::from_millis(5)).await;
                net.drain();
                net.sleep(Duration::from_millis(5)).await;
                drop(client);
            });
        }
    });
}

/// A server that waits for connections and for time, and so drops accepts that have completed. Every client gets its
/// answer.
#[test]
fn a_dropped_accept_loses_no_connection() {
    const CLIENTS: u64 = 10;
    sim::explore(200, |world| {
        world.set_faults(Faults { reset: 0, accept: 0, slow: 0, ..Faults::random(world.seed()) });
        let address = "10.0.0.1:7".parse().unwrap();
        let listeners = world.listen(address);
        let mut graph = Graph::new();
        let stage = graph.shared("greeter", ());
        let ended = Rc::new(Cell::new(0));
        let all_ended = ended.clone();
        world.program(graph, move |start| {
            let (listener, ended) = (listeners.listener(start)?, all_ended.clone());
            stage.dispatch(move |_| async move {
                loop {
                    let is_over = ended.get() == CLIENTS;
                    let wait = if is_over { Duration::MAX } else { Duration::from_millis(3) };
                    match select(sleep(wait), listener.accept_next()).await {
                        Either::Left(()) => (),
                        Either::Right(None) => return,
                        Either::Right(Some(stream)) => {
                            stream.write(b"hello".to_vec(), IoTimeout::NONE).await.unwrap();
                        }
                    }
                }
            })?;
            Ok(())
        });
        for number in 0..CLIENTS {
            let (net, ended) = (world.net(), ended.clone());
            world.client(async move {
                net.sleep(Duration::from_millis(number)).await;
                let mut client = net.connect(address).await.unwrap();
                let mut greeting = Vec::new();
                while greeting.len() < 5 {
                    assert!(client.read(&mut greeting).await.unwrap() > 0, "it was closed");
                }
                ended.set(ended.get() + 1);
            });
        }
    });
}

/// Short limits do not each cause a scan of a large table, because it is scanned only after a time in proportion to its
/// length. Time passes only while nothing is ready, so that it is the time of these waits.
#[test]
fn short_limits_share_the_scans_of_a_large_table() {
    const IDLE: u32 = 3;
    const WAITS: u32 = 4;
    let mut bounds = Bounds::default();
    bounds.deviations = Some(1);
    sim::explore_all(bounds, |world| {
        world.set_processors(1);
        let mut graph = Graph::new();
        let stage = graph.shared("limits", ());
        let elapsed = Rc::new(Cell::new(Duration::ZERO));
        let measured = elapsed.clone();
        world.program(graph, move |_| {
            let bind = || UdpSocket::bind("10.0.0.1:0".parse().unwrap());
            for _ in 0..IDLE {
                let socket = bind()?;
                stage.dispatch(move |_| async move {
                    let idle = IoTimeout::NONE.until_shutdown();
                    let _ = socket.recv_from(&mut [0], idle).await;
                })?;
            }
            let (socket, measured) = (bind()?, measured.clone());
            stage.dispatch(move |_| async move {
                // Until then all others wait.
                sleep(Duration::from_millis(1)).await;
                let begin = now();
                for _ in 0..WAITS {
                    let short = IoTimeout::after(Duration::ZERO);
                    let _ = socket.recv_from(&mut [0], short).await;
                }
                measured.set(now() - begin);
            })?;
            Ok(())
        });
        let min = Duration::from_micros(1) * (IDLE + 1) * (WAITS - 1);
        world.after_shutdown(move || assert!(elapsed.get() >= min, "{:?}", elapsed.get()));
    });
}

/// A server that drops its receive for a timer and repeats it immediately, while the driver still ends the first one.
#[test]
fn receives_that_are_dropped_and_repeated() {
    let answers = Rc::new(Cell::new(0));
    let counted = answers.clone();
    sim::explore(50, move |world| {
        world.set_faults(Faults { retry: 700, ..Faults::MILD });
        world.set_processors(1);
        let mut graph = Graph::new();
        let stage = graph.shared("stage", ());
        let address = "10.0.0.1:53".parse().unwrap();
        world.program(graph, move |_| {
            let socket = UdpSocket::bind(address)?;
            stage.dispatch(move |_| async move {
                let mut buffer = [0; 8];
                loop {
                    let receive = socket.recv_from(&mut buffer, IoTimeout::NONE.until_shutdown());
                    match select(receive, sleep(Duration::from_micros(300))).await {
                        Either::Left(Ok(received)) => {
                            let answer = buffer[..received.length].to_vec();
                            socket.send_to(answer, received.from, IoTimeout::NONE).await.unwrap();
                        }
                        Either::Left(Err(error)) => {
                            break assert!(phalanx::shutdown::is_draining(), "{error}");
                        }
                        Either::Right(()) => (),
                    }
                }
            })?;
            Ok(())
        });
        let (net, answers) = (world.net(), counted.clone());
        world.client(async move {
            let client = net.bind_udp("10.0.0.2:0".parse().unwrap()).unwrap();
            // A datagram that arrives for a dropped receive is lost.
            for _ in 0..20 {
                client.send_to(b"x", address).unwrap();
                net.sleep(Duration::from_millis(1)).await;
                let mut buffer = [0; 8];
                let mut receive = std::pin::pin!(client.recv_from(&mut buffer));
                let received = std::future::poll_fn(|context| {
                    std::task::Poll::Ready(receive.as_mut().poll(context))
                });
                if let std::task::Poll::Ready(received) = received.await {
                    assert_eq!(received.unwrap(), (1, address));
                    answers.set(answers.get() + 1);
                }
            }
            // The server's timer always fires again, so the simulation would not end.
            net.drain();
        });
    });
    assert!(answers.get() > 0, "no datagram was answered");
}
