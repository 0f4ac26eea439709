//! Socket options.

use std::time::Duration;

use phalanx_driver::Keepalive;
use socket2::SockRef;

use crate::harness::Harness;

crate::on_all!(nodelay_is_set_and_cleared, cork_is_set_and_cleared, keepalive_is_set_and_cleared);

fn nodelay_is_set_and_cleared(io: &mut Harness) {
    let (socket, _peer) = io.pair();
    for nodelay in [false, true, false] {
        io.driver.set_nodelay(socket, nodelay).unwrap();
        if let Some(fd) = io.driver.fd(socket) {
            assert_eq!(SockRef::from(&fd).tcp_nodelay().unwrap(), nodelay);
        }
    }
}

fn cork_is_set_and_cleared(io: &mut Harness) {
    let (socket, _peer) = io.pair();
    for cork in [true, false] {
        io.driver.set_cork(socket, cork).unwrap();
        #[cfg(target_os = "linux")]
        if let Some(fd) = io.driver.fd(socket) {
            assert_eq!(rustix::net::sockopt::tcp_cork(fd).unwrap(), cork);
        }
    }
}

fn keepalive_is_set_and_cleared(io: &mut Harness) {
    let (socket, _peer) = io.pair();
    let (idle, interval) = (Duration::from_secs(40), Duration::from_secs(7));
    io.driver.set_keepalive(socket, Some(Keepalive { idle, interval, count: 3 })).unwrap();
    if let Some(fd) = io.driver.fd(socket) {
        let socket = SockRef::from(&fd);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), idle);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), interval);
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
    }
    io.driver.set_keepalive(socket, None).unwrap();
    if let Some(fd) = io.driver.fd(socket) {
        assert!(!SockRef::from(&fd).keepalive().unwrap());
    }
}
