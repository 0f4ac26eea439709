//! glommio: an executor per core over io_uring, which spins briefly before parking, as Phalanx does.

use std::hint::black_box;
use std::time::Duration;

use futures_lite::{AsyncReadExt, AsyncWriteExt};
use glommio::channels::shared_channel;
use glommio::net::{TcpListener, TcpStream};
use glommio::{LocalExecutor, LocalExecutorBuilder, Placement};

use crate::{Arm, CHUNK, PARENTS, announce, of_each, warmed};

pub(crate) const ARM: Arm = Arm { name: "glommio", child, cross, echo };

fn executor() -> LocalExecutor {
    let builder = LocalExecutorBuilder::new(Placement::Unbound);
    builder.spin_before_park(Duration::from_micros(50)).make().expect("an executor")
}

fn child(times: usize) -> f64 {
    executor().run(warmed(times, parents))
}

async fn parents(times: usize) {
    let parents = (0..PARENTS).map(|_| {
        glommio::spawn_local(async move {
            let mut sum = 0;
            for n in 0..of_each(times) {
                let n = black_box(n);
                sum += glommio::spawn_local(async move { n }).await;
            }
            sum
        })
    });
    for parent in parents.collect::<Vec<_>>() {
        black_box(parent.await);
    }
}

fn cross(times: usize) -> f64 {
    let (ask, asked) = shared_channel::new_bounded::<usize>(16);
    let (answer, answered) = shared_channel::new_bounded::<usize>(16);
    let other = std::thread::spawn(move || {
        executor().run(async move {
            let (asked, answer) = (asked.connect().await, answer.connect().await);
            while let Some(n) = asked.recv().await {
                let _ = answer.send(n).await;
            }
        });
    });
    let taken = executor().run(async move {
        let (ask, answered) = (ask.connect().await, answered.connect().await);
        let questions = async |times: usize| {
            for n in 0..times {
                assert!(ask.send(n).await.is_ok(), "the other thread is running");
                assert_eq!(answered.recv().await, Some(n));
            }
        };
        warmed(times, questions).await
    });
    other.join().expect("no panic");
    taken
}

fn echo() -> Result<(), Box<dyn std::error::Error>> {
    executor().run(async {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        announce(listener.local_addr().map_err(|error| error.to_string())?);
        loop {
            let stream = listener.accept().await.map_err(|error| error.to_string())?;
            glommio::spawn_local(client(stream)).detach();
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
