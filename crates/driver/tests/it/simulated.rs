//! The simulated world by itself: runs are reproducible, and faults happen at their rates.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::net::SocketAddr;

use phalanx_driver::sim::{Faults, World};
use phalanx_driver::{
    Access, Config, Done, Driver, FileKind, OpenHow, Payload, Request, Socket, SymlinkPolicy, Token,
};

/// The completions of one run as text, to compare two runs.
fn run(seed: u64, faults: Faults) -> Vec<String> {
    let world = World::new(seed);
    world.set_faults(faults);
    world.write("a/file", vec![7; 1000]);
    let address = SocketAddr::from(([10, 0, 0, 1], 80));
    let mut driver = world.driver(&Config { entries: 1, buffers: 3, buffer_size: 50 }).unwrap();
    let listener = driver.adopt(world.listen(address)).unwrap();
    let how = OpenHow { links: SymlinkPolicy::Follow, access: Access::Read };
    let (mut open, mut clients, mut log): (Vec<Socket>, Vec<_>, Vec<String>) = Default::default();
    for round in 0..40 {
        let token = |n: u64| Token(10 * round + n);
        driver.start(token(0), Request::Accept { listener });
        let (directory, path) = (world.root(), CString::new("a/file").unwrap());
        driver.start(token(1), Request::Open { directory, path, how });
        for (n, socket) in open.drain(..).enumerate().take(3) {
            let payload = Payload { head: b"answer".to_vec(), ..Payload::default() };
            driver.start(token(2 + 2 * n as u64), Request::Send { socket, payload });
            driver.start(token(3 + 2 * n as u64), Request::Receive { socket, max: usize::MAX });
        }
        clients.push(world.connect(address).unwrap());
        let _ = clients[round as usize / 2].try_write(b"request");
        driver.park(None).unwrap();
        let mut completions = Vec::new();
        driver.reap(&mut completions).unwrap();
        for completion in completions {
            log.push(format!("{} {:?}: {:?}", world.now(), completion.token, completion.result));
            match completion.result {
                Ok(Done::Accepted(socket)) => open.push(socket),
                Ok(Done::Opened(file)) => {
                    assert_eq!(file.metadata().unwrap().kind, FileKind::File);
                    let token = Token(10_000 + completion.token.0);
                    let buffer = Vec::new();
                    driver.start(token, Request::ReadAt { file, buffer, offset: 10, length: 5 });
                }
                Ok(Done::Read(bytes)) => assert_eq!(bytes, [7; 5]),
                _ => (),
            }
        }
    }
    log
}

#[test]
fn a_world_repeats() {
    for seed in 0..20 {
        let faults = Faults::random(seed);
        assert_eq!(run(seed, faults), run(seed, faults));
    }
    assert_ne!(run(1, Faults::MILD), run(2, Faults::MILD));
}

#[test]
fn faults_happen_only_at_their_rates() {
    let errors = |faults: Faults| -> BTreeSet<String> {
        let log = (0..10).flat_map(|seed| run(seed, faults));
        let errors = log.filter_map(|text| Some(text.split_once("Err(")?.1.to_owned()));
        errors.map(|text| text.split(',').next().unwrap().to_owned()).collect()
    };
    assert_eq!(errors(Faults::NONE), BTreeSet::new());
    assert_eq!(errors(Faults::MILD), BTreeSet::new());
    let codes = |faults, expected: &[i32]| {
        let expected = expected.iter().map(|code| format!("Os {{ code: {code}"));
        assert_eq!(errors(faults), expected.collect());
    };
    codes(Faults { accept: 300, ..Faults::NONE }, &[libc::ECONNABORTED, libc::EMFILE]);
    codes(Faults { open: 300, ..Faults::NONE }, &[libc::EIO, libc::EMFILE]);
    codes(Faults { disk: 300, ..Faults::NONE }, &[libc::EIO]);
    // The first call returns the reset; later sends return EPIPE.
    codes(Faults { reset: 100, ..Faults::NONE }, &[libc::ECONNRESET, libc::EPIPE]);
}

#[test]
fn an_endpoint_stays_in_its_world() {
    let address = SocketAddr::from(([10, 0, 0, 1], 80));
    let (one, other) = (World::new(1), World::new(2));
    let mut driver = other.driver(&Config::default()).unwrap();
    let listener = driver.adopt(other.listen(address)).unwrap();
    assert_eq!(driver.adopt(one.listen(address)).unwrap_err().raw_os_error(), Some(libc::EBADF));
    assert_eq!(driver.local_addr(listener).unwrap(), address);
    assert!(one.connect(address).is_err(), "closed in its own world");
}

/// Conversions of the caller run without the world's lock; otherwise this test hangs.
#[test]
fn conversions_may_use_the_world() {
    struct Content(World);
    impl From<Content> for Vec<u8> {
        fn from(content: Content) -> Self {
            content.0.now().to_string().into_bytes()
        }
    }
    let (done, finished) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let world = World::new(1);
        world.set_faults(Faults::NONE);
        for name in ["one", "three", "two"] {
            world.write(name, Content(world.clone()));
        }
        let is_kept = |name: &[u8]| world.root().metadata().is_ok() && name != b"three";
        let names = world.root().read_dir(10, &is_kept).unwrap();
        let _ = done.send((
            names.entries.len(),
            names.truncated,
            world.root().read_dir(1, &is_kept).unwrap().truncated,
        ));
    });
    assert_eq!(finished.recv_timeout(std::time::Duration::from_secs(60)), Ok((2, false, true)));
}

/// A socket that is bound to an unspecified address receives everything sent to its port at any address, and its
/// responses come from that address.
#[test]
fn sockets_without_an_address_are_reached_at_any() {
    let world = World::new(1);
    let any = |port| SocketAddr::from(([0, 0, 0, 0], port));
    let address = SocketAddr::from(([10, 0, 0, 1], 53));
    let deliver_next = || world.next_arrival().into_iter().for_each(|at| world.advance_to(at));
    let (server, client) = (world.bind_udp(any(53)).unwrap(), world.bind_udp(any(0)).unwrap());
    let mut byte = [0];
    client.send_to(b"x", address).unwrap();
    deliver_next();
    let (_, from) = server.try_recv_from(&mut byte).unwrap();
    server.send_to(b"y", from).unwrap();
    deliver_next();
    assert_eq!(client.try_recv_from(&mut byte).unwrap(), (1, address));

    let address = SocketAddr::from(([10, 0, 0, 1], 80));
    let mut driver = world.driver(&Config::default()).unwrap();
    let listener = driver.adopt(world.listen(any(80))).unwrap();
    assert!(world.connect(SocketAddr::from(([10, 0, 0, 1], 81))).is_err());
    let client = world.connect(address).unwrap();
    driver.start(Token(1), Request::Accept { listener });
    driver.park(None).unwrap();
    let mut completions = Vec::new();
    driver.reap(&mut completions).unwrap();
    let Ok(Done::Accepted(socket)) = completions[0].result else { panic!("{completions:?}") };
    assert_eq!(driver.local_addr(socket).unwrap(), address);
    drop(client);
}

/// As on Linux: the error comes once, then the end of the stream.
#[test]
fn a_reset_is_received_once() {
    let world = World::new(1);
    let (one, two) = world.pair();
    one.reset();
    world.next_arrival().into_iter().for_each(|at| world.advance_to(at));
    let error = two.try_read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(two.try_read(&mut [0]).unwrap(), 0);
    assert_eq!(two.try_write(b"x").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
}

/// The name of a removed file is durable only after a sync of its directory.
#[test]
fn removed_files_may_return() {
    let all = |synced: bool| -> BTreeSet<Option<Vec<u8>>> {
        let after = |seed| {
            let world = World::new(seed);
            world.write("file", b"old".to_vec());
            world.root().remove(c"file").unwrap();
            if synced {
                let mut driver = world.driver(&Config::default()).unwrap();
                driver.start(Token(1), Request::Sync { file: world.root(), data_only: false });
                driver.park(None).unwrap();
            }
            world.content_after_power_cut("file")
        };
        (0..50).map(after).collect()
    };
    assert_eq!(all(false), [None, Some(b"old".to_vec())].into());
    assert_eq!(all(true), [None].into());
    let world = World::new(1);
    world.write("file", b"old".to_vec());
    world.root().remove(c"file").unwrap();
    world.remove("file");
    assert!((0..50).all(|_| world.content_after_power_cut("file").is_none()));
}

/// `O_CREAT` creates the target of a link.
#[test]
fn a_file_is_created_through_a_link() {
    let world = World::new(1);
    world.directory("a");
    world.link("a/link", "../b");
    world.link("b", "c");
    let how = OpenHow { links: SymlinkPolicy::Follow, access: Access::Create };
    let path = CString::new("a/link").unwrap();
    world.root().open_now(&path, how).expect("it is cached").unwrap();
    assert!(world.remove("c"));
    world.link("d", "/c");
    let error = world.root().open_now(c"d", how).expect("it is cached").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EXDEV));
}

#[test]
fn connects_fail_at_their_rate() {
    let errors = |connect| -> BTreeSet<i32> {
        let world = World::new(1);
        world.set_faults(Faults { connect, ..Faults::NONE });
        let address = SocketAddr::from(([10, 0, 0, 1], 80));
        let _listening = world.listen(address);
        let mut driver = world.driver(&Config::default()).unwrap();
        let connected = |n| {
            driver.start(Token(n), Request::Connect { address: address.into() });
            driver.park(None).unwrap();
            let mut completions = Vec::new();
            driver.reap(&mut completions).unwrap();
            completions.pop().unwrap().result.err().map(|error| error.raw_os_error().unwrap())
        };
        (0..100).filter_map(connected).collect()
    };
    assert_eq!(errors(0), [].into());
    assert_eq!(errors(300), [libc::ECONNREFUSED, libc::ETIMEDOUT].into());
}
