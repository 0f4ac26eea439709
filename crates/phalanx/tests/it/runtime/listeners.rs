//! A server's listening sockets: one for each processor, accepting until the program drains.

use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;

use phalanx::Graph;
use phalanx::net::{Bytes, IoTimeout, Listener, Listeners, bind_unix};
use phalanx::runtime::{DriverChoice, RunError};

use phalanx_testkit::tcp::{read_to_end, with_timeouts};

use crate::runtime::harness::{one, runtime};
use crate::runtime::on_each_driver;

on_each_driver!(
    accepting_ends_with_the_drain,
    too_few_are_an_error,
    too_many_are_an_error,
    accepting_ends_with_an_error_that_stays,
    every_connection_is_served_by_one_processor,
    an_accept_of_a_shared_socket_takes_one_connection,
);

fn accepting_ends_with_the_drain(driver: DriverChoice) {
    const CLIENTS: usize = 20;
    let listeners = Listeners::bind((Ipv4Addr::LOCALHOST, 0).into(), 2).unwrap();
    let address = listeners.local_addr();
    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    let clients = std::thread::spawn(move || {
        for _ in 0..CLIENTS {
            let stream = with_timeouts(TcpStream::connect(address).unwrap());
            assert_eq!(read_to_end(&stream), b"hello there");
        }
        // The last one stays connected until the program ends.
        TcpStream::connect(address).unwrap()
    });
    let start = |start: &phalanx::runtime::StartContext| {
        let listener = listeners.listener(start)?;
        let again = listeners.listener(start).expect_err("taken");
        assert_eq!(again.kind(), ErrorKind::NotFound);
        stage.dispatch(move |_| {
            listener.accept_each(move |stream| {
                stage
                    .dispatch(move |_| async move {
                        // Vectors and static slices are payloads.
                        stream.write(b"hello".to_vec(), IoTimeout::NONE).await.unwrap();
                        let there = Bytes::from_static(b" there");
                        stream.write(there, IoTimeout::NONE).await.unwrap();
                    })
                    .unwrap();
            })
        })?;
        Ok(())
    };
    runtime(driver, 2)
        .run_with_ready(graph, start, |up| {
            let control = up.control.clone();
            std::thread::spawn(move || {
                let mut last = with_timeouts(clients.join().expect("no client failed"));
                let mut answer = [0; 11];
                last.read_exact(&mut answer).unwrap();
                control.drain();
            });
        })
        .unwrap();
}

fn too_few_are_an_error(driver: DriverChoice) {
    let listeners = Listeners::bind((Ipv4Addr::LOCALHOST, 0).into(), 1).unwrap();
    let graph = Graph::new();
    let ran = runtime(driver, 2).run(graph, |start| {
        listeners.listener(start)?;
        Ok(())
    });
    match ran {
        Err(RunError::Start(error)) => {
            assert!(error.to_string().contains("processor 1"), "{error}")
        }
        other => panic!("{other:?}"),
    }
}

fn too_many_are_an_error(driver: DriverChoice) {
    let address = (Ipv4Addr::LOCALHOST, 0).into();
    let bound = Listeners::bind(address, 3).unwrap();
    let socket = std::net::TcpListener::bind(address).unwrap();
    let shared = Listeners::share(&socket, 3).unwrap();
    let ran = runtime(driver, 2).run(Graph::new(), |start| {
        shared.listener(start)?;
        bound.listener(start)?;
        Ok(())
    });
    match ran {
        Err(RunError::Start(error)) => {
            let text = format!("3 sockets listen on {}, but the program has 2", bound.local_addr());
            assert!(error.to_string().starts_with(&text), "{error}")
        }
        other => panic!("{other:?}"),
    }
}

/// A connected socket is not a listener.
fn accepting_ends_with_an_error_that_stays(driver: DriverChoice) {
    let server = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let connected = TcpStream::connect(server.local_addr().unwrap()).unwrap();
    // The poll driver tries to accept after an event.
    drop(server);
    one(driver, |_| async {
        let connected = std::net::TcpListener::from(std::os::fd::OwnedFd::from(connected));
        let listener = Listener::new(connected).unwrap();
        listener.accept_each(|_| unreachable!("nobody can connect")).await;
    });
}

/// Of the connections that arrive together, a processor that requests only one leaves the others to the other processor.
fn an_accept_of_a_shared_socket_takes_one_connection(driver: DriverChoice) {
    const CLIENTS: usize = 4;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let sockets = Mutex::new(bind_unix(&path, 2).unwrap());
    let clients: Vec<_> = (0..CLIENTS).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    let (first, is_accepted) = phalanx::sync::oneshot::shared();
    let (first, is_accepted) = (Mutex::new(Some(first)), Mutex::new(Some(is_accepted)));
    let start = |start: &phalanx::runtime::StartContext| {
        let listener = Listener::new(sockets.lock().unwrap().pop().unwrap())?;
        let mut draining = phalanx::shutdown::draining();
        if start.processor() == 0 {
            let first = first.lock().unwrap().take().unwrap();
            stage.dispatch(move |_| async move {
                let stream = listener.accept().await.unwrap();
                stream.write(b"0".to_vec(), IoTimeout::NONE).await.unwrap();
                drop(stream);
                first.send(());
                // It stays open, and is not used.
                (&mut draining).await;
                drop(listener);
            })?;
        } else {
            let is_accepted = is_accepted.lock().unwrap().take().unwrap();
            stage.dispatch(move |_| async move {
                is_accepted.await;
                for _ in 1..CLIENTS {
                    let stream = listener.accept().await.unwrap();
                    stream.write(b"1".to_vec(), IoTimeout::NONE).await.unwrap();
                }
            })?;
        }
        Ok(())
    };
    let read = |mut client: UnixStream| {
        client.set_read_timeout(Some(phalanx_testkit::TIMEOUT)).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).map(|_| answer)
    };
    let mut answers = None;
    let ready = |up: &phalanx::runtime::Started| {
        let control = up.control.clone();
        answers = Some(std::thread::spawn(move || {
            let answers: Vec<_> = clients.into_iter().map(read).collect();
            control.drain();
            answers
        }));
    };
    runtime(driver, 2).run_with_ready(graph, start, ready).unwrap();
    let answers = answers.expect("it has started").join().unwrap();
    let mut answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    answers.sort();
    assert_eq!(answers, ["0", "1", "1", "1"]);
}

/// Each connection is answered once, through the address it was made to. Connections to an address on which only one
/// processor listens stay there.
fn every_connection_is_served_by_one_processor(driver: DriverChoice) {
    const CLIENTS: usize = 100;
    let shared = Listeners::bind((Ipv4Addr::LOCALHOST, 0).into(), 4).unwrap();
    let single = Listeners::bind((Ipv4Addr::LOCALHOST, 0).into(), 1).unwrap();
    let addresses = [shared.local_addr(), single.local_addr()];
    let mut graph = Graph::new();
    let stage = graph.shared("test", ());
    let clients = std::thread::spawn(move || {
        let open = |n: usize| with_timeouts(TcpStream::connect(addresses[n % 2]).unwrap());
        let streams: Vec<_> = (0..CLIENTS).map(open).collect();
        let answers = streams.into_iter().map(|mut stream| {
            let mut answer = [0; 2];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "one answer");
            answer
        });
        answers.collect::<Vec<_>>()
    });
    let start = |start: &phalanx::runtime::StartContext| {
        let processor = start.processor() as u8;
        let own = (processor == 0).then(|| single.listener(start)).transpose()?;
        let listeners = [(0, Some(shared.listener(start)?)), (1, own)];
        for (address, listener) in listeners {
            let Some(listener) = listener else { continue };
            stage.dispatch(move |_| {
                listener.accept_each(move |stream| {
                    let answer = stage.dispatch(move |_| async move {
                        let answer = vec![address, processor];
                        stream.write(answer, IoTimeout::NONE).await.unwrap();
                    });
                    answer.unwrap();
                })
            })?;
        }
        Ok(())
    };
    runtime(driver, 4)
        .run_with_ready(graph, start, |up| {
            let control = up.control.clone();
            std::thread::spawn(move || {
                let answers = clients.join().expect("no client failed");
                for (n, [address, processor]) in answers.into_iter().enumerate() {
                    assert_eq!(usize::from(address), n % 2);
                    assert!(address == 0 || processor == 0);
                }
                control.drain();
            });
        })
        .unwrap();
}
