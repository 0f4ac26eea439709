//! The admin address: a kernel thread answers each request for `/snapshot.json` with the counters of the sites.
//!
//! The command opens the socket before it executes the program, which inherits the descriptor. If a program has several
//! processes, the first one to create a thread answers. After a fork, the child answers if its parent has created no
//! thread.

mod host;
mod output;
mod snapshot;

use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use self::output::Output;
use crate::readiness::poller;
use crate::stats;
use crate::system::{real, sys};
use crate::thread::current;

/// The listening socket; negative if there is none.
static LISTENER: AtomicI32 = AtomicI32::new(-1);
/// When the counters began.
static STARTED: AtomicU64 = AtomicU64::new(0);

/// Maximum size of a request.
const MAX_REQUEST_BYTES: usize = 4096;
/// Time limit for the request of a client, and for each write.
const TIMEOUT_MICROSECONDS: u64 = 5_000_000;
const SOL_SOCKET: usize = 1;
const SO_RCVTIMEO: usize = 20;
const SO_SNDTIMEO: usize = 21;

/// Takes over the listening socket, in programs that are started with `--admin`.
pub(crate) fn prepare(listener: i32) {
    LISTENER.store(poller::move_away(listener), Ordering::Relaxed);
}

/// Starts to count and to answer if the program has an admin address. Returns false if that fails.
pub(crate) fn start() -> bool {
    if LISTENER.load(Ordering::Relaxed) < 0 {
        return true;
    }
    STARTED.store(sys::now(), Ordering::Relaxed);
    stats::enable() && real::start_thread(run, core::ptr::null_mut())
}

/// Closes the socket in a child process whose parent answers.
pub(crate) fn reset() {
    let listener = LISTENER.swap(-1, Ordering::Relaxed);
    if listener >= 0 {
        sys::call(sys::SYS_CLOSE, [listener as usize, 0, 0, 0, 0, 0]);
    }
}

extern "C" fn run(_: *mut u8) -> *mut u8 {
    sys::set_signal_mask(sys::HOME_MASK);
    current().is_masked.set(true);
    loop {
        let listener = LISTENER.load(Ordering::Relaxed) as usize;
        let client = sys::call(sys::SYS_ACCEPT, [listener, 0, 0, 0, 0, 0]);
        if client == -(sys::EBADF as isize) {
            // The program has closed all descriptors.
            return core::ptr::null_mut();
        }
        if client < 0 {
            // For example, no descriptor is free; try again later.
            sys::futex_wait(
                &core::sync::atomic::AtomicU32::new(0),
                0,
                Some(sys::now() + 100_000_000),
            );
            continue;
        }
        answer(client as usize);
        sys::call(sys::SYS_CLOSE, [client as usize, 0, 0, 0, 0, 0]);
    }
}

fn set_timeout(client: usize, option: usize, microseconds: u64) {
    let limit = [microseconds / 1_000_000, microseconds % 1_000_000];
    let arguments = [client, SOL_SOCKET, option, limit.as_ptr() as usize, 16, 0];
    sys::call(sys::SYS_SETSOCKOPT, arguments);
}

/// Answers the first request of a client; further ones in the same bytes are ignored.
fn answer(client: usize) {
    set_timeout(client, SO_SNDTIMEO, TIMEOUT_MICROSECONDS);
    let mut request = [0; MAX_REQUEST_BYTES];
    let mut length = 0;
    let end = sys::now() + TIMEOUT_MICROSECONDS * 1000;
    while !request[..length].windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        // At least 1, because 0 means no limit.
        let left = end.saturating_sub(sys::now()) / 1000;
        if left == 0 {
            return;
        }
        set_timeout(client, SO_RCVTIMEO, left);
        let rest = &mut request[length..];
        let arguments = [client, rest.as_mut_ptr() as usize, rest.len(), 0, 0, 0];
        match sys::call(sys::SYS_RECVFROM, arguments) {
            count if count > 0 => length += count as usize,
            _ => return,
        }
    }
    let request = &request[..length];
    let mut output = Output::new(client);
    let (status, body) = match () {
        () if !host::is_local(request) => ("403 Forbidden", "the host must be an address\n"),
        () if !request.starts_with(b"GET ") => ("405 Method Not Allowed", "only GET\n"),
        () if request.starts_with(b"GET /snapshot.json ") => ("200 OK", ""),
        () => ("404 Not Found", "phalanx threads serves /snapshot.json\n"),
    };
    output.text("HTTP/1.1 ");
    output.text(status);
    output.text("\r\nConnection: close\r\nContent-Type: ");
    output.text(if body.is_empty() { "application/json" } else { "text/plain" });
    output.text("\r\n\r\n");
    output.text(body);
    if body.is_empty() {
        snapshot::write(&mut output, sys::now() - STARTED.load(Ordering::Relaxed));
    }
    output.flush();
}
