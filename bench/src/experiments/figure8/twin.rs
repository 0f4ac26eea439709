//! The threaded server, with a thread per client.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use phalanx_matcher::{Matches, Snapshot};

use super::arm::Running;
use super::{Coder, EVENT};
use crate::system::Bound;

/// Listens on a free port, with all threads on `cores`.
pub(super) fn start(cores: &[usize], snapshot: Snapshot) -> io::Result<Running> {
    let coder = Coder::new(&snapshot);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let ends = Arc::new(AtomicBool::new(false));
    let over = ends.clone();
    // Threads inherit the affinity of the thread that starts them.
    let _bound = Bound::to(cores)?;
    let acceptor = std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            if over.load(Ordering::Relaxed) {
                return;
            }
            let (snapshot, coder) = (snapshot.clone(), coder.clone());
            std::thread::spawn(move || serve(stream, &snapshot, &coder));
        }
    });
    let end = Box::new(move || {
        ends.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(address));
        acceptor.join().expect("accepting does not panic");
    });
    Ok(Running { address, end })
}

/// Serves one client until it disconnects.
fn serve(mut stream: TcpStream, snapshot: &Snapshot, coder: &Coder) {
    let _ = stream.set_nodelay(true);
    let mut matches = Matches::new();
    let mut bytes = [0; EVENT];
    while stream.read_exact(&mut bytes).is_ok() {
        matches.clear();
        snapshot.matches(&coder.code(snapshot, &bytes), &mut matches);
        let answer = matches.all().len() as u32;
        if stream.write_all(&answer.to_le_bytes()).is_err() {
            return;
        }
    }
}
