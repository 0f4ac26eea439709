//! Unix stream sockets.

use std::io::{ErrorKind, IoSlice, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use phalanx_driver::{Address, Done, Request, Socket};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tempfile::TempDir;

use crate::harness::{Harness, pattern};

crate::on_all!(
    a_connection_by_path,
    no_listener_at_a_path,
    a_path_that_is_too_long,
    a_full_backlog,
    large_messages_both_ways,
);
crate::on_both!(bytes_behind_passed_descriptors);

/// A receive ends behind bytes with which the peer has passed descriptors, so a short one may leave bytes in the socket.
fn bytes_behind_passed_descriptors(io: &mut Harness) {
    let (listener, path, _directory) = listener(io);
    let (local, peer) = UnixStream::pair().unwrap();
    let adopted = (io.driver.adopt(local.into()).unwrap(), peer);
    let accept = io.start(Request::Accept { listener });
    let connected = UnixStream::connect(&path).unwrap();
    let accepted = (io.accepted(accept), connected);
    let other = UnixListener::bind(path.with_extension("other")).unwrap();
    let connected = connect(io, &path.with_extension("other")).unwrap();
    let connected = (connected, other.accept().unwrap().0);
    for (socket, mut peer) in [adopted, accepted, connected] {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut passed = SendAncillaryBuffer::new(&mut space);
        let passed_on = std::io::stdout();
        let file = [passed_on.as_fd()];
        assert!(passed.push(SendAncillaryMessage::ScmRights(&file)));
        let bytes = [IoSlice::new(b"abc")];
        assert_eq!(sendmsg(&peer, &bytes, &mut passed, SendFlags::empty()), Ok(3));
        peer.write_all(b"def").unwrap();
        io.idle(Duration::from_millis(20));
        assert_eq!(io.received_exactly(socket, 6), b"abcdef");
    }
}

/// A listening socket at a new path, and its directory, which the caller has to keep.
fn listener(io: &mut Harness) -> (Socket, PathBuf, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let endpoint = match &io.outside.0 {
        None => UnixListener::bind(&path).unwrap().into(),
        Some(world) => world.listen_unix(&path),
    };
    (io.driver.adopt(endpoint).unwrap(), path, directory)
}

fn connect(io: &mut Harness, path: &Path) -> std::io::Result<Socket> {
    let connect = io.start(Request::Connect { address: Address::Unix(path.into()) });
    match io.finish(connect)? {
        Done::Connected(socket) => Ok(socket),
        other => panic!("{other:?}"),
    }
}

fn pair(io: &mut Harness) -> (Socket, Socket, TempDir) {
    let (listener, path, directory) = listener(io);
    let accept = io.start(Request::Accept { listener });
    let client = connect(io, &path).unwrap();
    (client, io.accepted(accept), directory)
}

fn a_connection_by_path(io: &mut Harness) {
    let (client, server, _directory) = pair(io);
    for (from, to) in [(client, server), (server, client)] {
        let send = io.send(from, b"head", "body");
        io.sent(send).unwrap();
        assert_eq!(io.received_exactly(to, 8), b"headbody");
        assert_eq!(io.driver.local_addr(from).unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(io.driver.peer_addr(from).unwrap_err().kind(), ErrorKind::Unsupported);
    }
    io.driver.shutdown(client, std::net::Shutdown::Write).unwrap();
    assert!(io.received(server).unwrap().is_empty());
    io.driver.close(server);
    assert!(io.received(client).unwrap().is_empty());
}

fn no_listener_at_a_path(io: &mut Harness) {
    let directory = tempfile::tempdir().unwrap();
    let error = connect(io, &directory.path().join("none")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    let (listener, path, _directory) = listener(io);
    io.driver.close(listener);
    let error = connect(io, &path).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ECONNREFUSED));
}

fn a_path_that_is_too_long(io: &mut Harness) {
    let error = connect(io, Path::new(&"x".repeat(200))).unwrap_err();
    let expected =
        if io.outside.0.is_some() { ErrorKind::NotFound } else { ErrorKind::InvalidInput };
    assert_eq!(error.kind(), expected);
}

/// The caller decides how long to wait. Repeating the request immediately would keep the processor busy.
fn a_full_backlog(io: &mut Harness) {
    if io.outside.0.is_some() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    // Two connections without an accept fill a backlog of one.
    rustix::net::listen(&listener, 1).unwrap();
    let _full = [(), ()].map(|()| UnixStream::connect(&path).unwrap());
    assert_eq!(connect(io, &path).unwrap_err().kind(), ErrorKind::WouldBlock);
}

fn large_messages_both_ways(io: &mut Harness) {
    const LENGTH: usize = 1 << 20;
    let (client, server, _directory) = pair(io);
    for (from, to) in [(client, server), (server, client)] {
        let bytes = pattern(LENGTH);
        let send = io.send(from, &bytes[..1000], bytes[1000..].to_vec());
        assert!(io.received_exactly(to, LENGTH) == bytes);
        io.sent(send).unwrap();
    }
}
