//! The simulated world by itself: runs are reproducible, and faults happen at their rates.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::net::SocketAddr;

use phalanx_driver::sim::{Faults, World};
use phalanx_driver::{
    Access, Config, Done, Driver, FileKind, Links, OpenHow, Payload, Request, Socket, Token,
};

/// The completions of one run as text, to compare two runs.
fn run(seed: u64, faults: Faults) -> Vec<String> {
    let world = World::new(seed);
    world.set_faults(faults);
    world.write("a/file", vec![7; 1000]);
    let address = SocketAddr::from(([10, 0, 0, 1], 80));
    let mut driver = world.driver(&Config { entries: 1, buffers: 3, buffer_size: 50 }).unwrap();
    let listener = driver.adopt(world.listen(address)).unwrap();
    let how = OpenHow { links: Links::Followed, access: Access::Read };
    let (mut open, mut clients, mut told): (Vec<Socket>, Vec<_>, Vec<String>) = Default::default();
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
            told.push(format!("{} {:?}: {:?}", world.now(), completion.token, completion.result));
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
    told
}

#[test]
fn a_world_repeats() {
    for seed in 0..20 {
        let faults = Faults::drawn(seed);
        assert_eq!(run(seed, faults), run(seed, faults));
    }
    assert_ne!(run(1, Faults::MILD), run(2, Faults::MILD));
}

#[test]
fn faults_happen_only_at_their_rates() {
    let errors = |faults: Faults| -> BTreeSet<String> {
        let told = (0..10).flat_map(|seed| run(seed, faults));
        let errors = told.filter_map(|text| Some(text.split_once("Err(")?.1.to_owned()));
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
    let mine = driver.adopt(other.listen(address)).unwrap();
    assert_eq!(driver.adopt(one.listen(address)).unwrap_err().raw_os_error(), Some(libc::EBADF));
    assert_eq!(driver.local_addr(mine).unwrap(), address);
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
        let kept = |name: &[u8]| world.root().metadata().is_ok() && name != b"three";
        let names = world.root().read_dir(10, &kept).unwrap();
        let _ = done.send((
            names.entries.len(),
            names.truncated,
            world.root().read_dir(1, &kept).unwrap().truncated,
        ));
    });
    assert_eq!(finished.recv_timeout(std::time::Duration::from_secs(60)), Ok((2, false, true)));
}
