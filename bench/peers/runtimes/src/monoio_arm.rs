//! monoio: a runtime per core over io_uring, whose tasks own their I/O buffers.

use std::hint::black_box;

use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
use monoio::net::{TcpListener, TcpStream};
use monoio::{IoUringDriver, Runtime, RuntimeBuilder};

use crate::{Arm, CHUNK, PARENTS, announce, channels, of_each, warmed};

pub(crate) const ARM: Arm = Arm { name: "monoio", child, cross, echo };

fn runtime() -> Runtime<IoUringDriver> {
    RuntimeBuilder::<IoUringDriver>::new().build().expect("a runtime")
}

fn child(times: usize) -> f64 {
    runtime().block_on(warmed(times, parents))
}

async fn parents(times: usize) {
    let parents = (0..PARENTS).map(|_| {
        monoio::spawn(async move {
            let mut sum = 0;
            for n in 0..of_each(times) {
                let n = black_box(n);
                sum += monoio::spawn(async move { n }).await;
            }
            sum
        })
    });
    for parent in parents.collect::<Vec<_>>() {
        black_box(parent.await);
    }
}

fn cross(times: usize) -> f64 {
    let (here, there) = channels::pair();
    let other = std::thread::spawn(move || runtime().block_on(channels::answer(there)));
    let taken = runtime().block_on(channels::ask(here, times));
    other.join().expect("no panic");
    taken
}

fn echo() -> Result<(), Box<dyn std::error::Error>> {
    runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        announce(listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await?;
            monoio::spawn(client(stream));
        }
    })
}

async fn client(mut stream: TcpStream) -> std::io::Result<()> {
    let mut buffer = Vec::with_capacity(CHUNK);
    loop {
        let (read, filled) = stream.read(buffer).await;
        if read? == 0 {
            return Ok(());
        }
        let (written, sent) = stream.write_all(filled).await;
        written?;
        buffer = sent;
        buffer.clear();
    }
}
