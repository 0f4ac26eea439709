//! Unix sockets of operations.

use std::io::ErrorKind;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use phalanx::Graph;
use phalanx::net::{IoTimeout, Listener, Stream, bind_unix};
use phalanx::runtime::{DriverChoice, StartContext, Started};

use phalanx_testkit::TIMEOUT;
use phalanx_testkit::bytes::pattern;

use crate::runtime::harness::{one, runtime};
use crate::runtime::on_each_driver;

on_each_driver!(
    a_server_on_two_processors,
    a_connection_of_operations,
    a_full_backlog_is_waited_for,
    no_listener,
);

fn path() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    (directory, path)
}

fn a_server_on_two_processors(driver: DriverChoice) {
    let (_directory, path) = path();
    let sockets = Mutex::new(bind_unix(&path, 2).unwrap());
    let mut graph = Graph::new();
    let stage = graph.shared("echo", ());
    let start = |_: &StartContext| {
        let listener = Listener::new(sockets.lock().unwrap().pop().unwrap())?;
        stage.dispatch(move |_| {
            listener.accept_each(move |stream| {
                let echo = stage.dispatch(move |_| async move {
                    let mut buffer = Vec::new();
                    while stream.read(&mut buffer, IoTimeout::NONE).await.unwrap() > 0 {
                        buffer = stream.write(buffer, IoTimeout::NONE).await.unwrap();
                    }
                });
                echo.unwrap();
            })
        })?;
        Ok(())
    };
    let ready = |started: &Started| {
        let (control, path) = (started.control.clone(), path.clone());
        thread::spawn(move || {
            for client in 0..30 {
                let stream = UnixStream::connect(&path).unwrap();
                stream.set_read_timeout(Some(TIMEOUT)).unwrap();
                exchange(stream, 3_000 * client);
            }
            control.drain();
        });
    };
    runtime(driver, 2).run_with_ready(graph, start, ready).unwrap();
}

fn exchange(stream: UnixStream, length: usize) {
    use std::io::{Read, Write};
    let (mut writer, mut received) = (stream.try_clone().unwrap(), vec![0; length]);
    thread::scope(|scope| {
        scope.spawn(|| writer.write_all(&pattern(length)).unwrap());
        (&stream).read_exact(&mut received).unwrap();
    });
    assert!(received == pattern(length));
}

fn a_connection_of_operations(driver: DriverChoice) {
    let (_directory, path) = path();
    one(driver, |stage| async move {
        let listener = Listener::new(bind_unix(&path, 1).unwrap().remove(0)).unwrap();
        assert_eq!(listener.local_addr().unwrap_err().kind(), ErrorKind::Unsupported);
        let server = stage.call(move |_| async move { listener.accept().await.unwrap() });
        let client = Stream::connect_unix(&path, IoTimeout::after(TIMEOUT)).await.unwrap();
        let server = server.await.unwrap();
        assert_eq!(client.peer_addr().unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(client.set_nodelay(true).is_err());
        let (read, write) = server.into_split();
        let writing = stage.call(move |_| async move {
            write.write(pattern(500_000), IoTimeout::after(TIMEOUT)).await.unwrap();
        });
        let mut received = vec![0; 500_000];
        client.read_exact(&mut received, IoTimeout::after(TIMEOUT)).await.unwrap();
        assert!(received == pattern(500_000));
        writing.await.unwrap();
        // The write half is gone, so this is the end of the stream.
        assert_eq!(client.read(&mut Vec::new(), IoTimeout::after(TIMEOUT)).await.unwrap(), 0);
        drop(client);
        assert_eq!(read.read(&mut Vec::new(), IoTimeout::after(TIMEOUT)).await.unwrap(), 0);
    });
}

fn a_full_backlog_is_waited_for(driver: DriverChoice) {
    let (_directory, path) = path();
    let listener = UnixListener::bind(&path).unwrap();
    // Two connections without an accept fill a backlog of one.
    rustix::net::listen(&listener, 1).unwrap();
    let _full = [(), ()].map(|()| UnixStream::connect(&path).unwrap());
    one(driver, |_| async move {
        let limit = IoTimeout::after(Duration::from_millis(20));
        let error = Stream::connect_unix(&path, limit).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let accepting = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            (0..3).map(|_| listener.accept().unwrap()).collect::<Vec<_>>()
        });
        Stream::connect_unix(&path, IoTimeout::after(TIMEOUT)).await.unwrap();
        accepting.join().unwrap();
    });
}

fn no_listener(driver: DriverChoice) {
    let (_directory, path) = path();
    one(driver, |_| async move {
        let error = Stream::connect_unix(&path, IoTimeout::NONE).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        drop(bind_unix(&path, 1).unwrap());
        let error = Stream::connect_unix(&path, IoTimeout::NONE).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let error = Stream::connect_unix("x".repeat(200), IoTimeout::NONE).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}
