//! tokio: its single-threaded runtime, as in a server with a runtime per core.

use std::hint::black_box;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use crate::{Arm, CHUNK, PARENTS, announce, channels, of_each, warmed};

pub(crate) const ARM: Arm = Arm { name: "tokio", child, cross, echo };

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_io().build().expect("a runtime")
}

fn child(times: usize) -> f64 {
    runtime().block_on(warmed(times, parents))
}

async fn parents(times: usize) {
    let parents = (0..PARENTS).map(|_| {
        tokio::spawn(async move {
            let mut sum = 0;
            for n in 0..of_each(times) {
                let n = black_box(n);
                sum += tokio::spawn(async move { n }).await.expect("no panic");
            }
            sum
        })
    });
    for parent in parents.collect::<Vec<_>>() {
        black_box(parent.await.expect("no panic"));
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
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        announce(listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(client(stream));
        }
    })
}

async fn client(mut stream: TcpStream) -> std::io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            read => stream.write_all(&buffer[..read]).await?,
        }
    }
}
