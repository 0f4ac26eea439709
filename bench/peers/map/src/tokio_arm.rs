//! tokio: its work-stealing runtime, or one single-threaded runtime per half of the keys.

use std::error::Error;
use std::hash::RandomState;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};

use crate::{announce, processors};
use crate::protocol::{answer, parse};
use crate::table::{Answer, Part, Request, Sharded, number};

const ANY: &str = "127.0.0.1:0";

pub(crate) fn mutex() -> Result<(), Box<dyn Error>> {
    let runtime = Builder::new_multi_thread().worker_threads(processors()?).enable_io().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(ANY).await?;
        announce(listener.local_addr()?);
        let map = Arc::new(Sharded::default());
        // In a task, so that accepting runs on a worker as well.
        let accepts = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await?;
                let map = map.clone();
                tokio::spawn(client(stream, async move |request| Some(map.run(request))));
            }
            #[allow(unreachable_code, reason = "it says what the error is")]
            Ok::<(), std::io::Error>(())
        });
        Ok(accepts.await??)
    })
}

/// A request and the channel for its answer.
type Asked = (Request, oneshot::Sender<Answer>);

pub(crate) fn partitioned() -> Result<(), Box<dyn Error>> {
    let threads = processors()?;
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..threads).map(|_| mpsc::unbounded_channel::<Asked>()).unzip();
    let listener = std::net::TcpListener::bind(ANY)?;
    let address: SocketAddr = listener.local_addr()?;
    let hasher = Arc::new(RandomState::new());
    announce(address);
    listener.set_nonblocking(true)?;
    let threads = receivers.into_iter().enumerate().map(|(at, asked)| {
        let (senders, hasher) = (senders.clone(), hasher.clone());
        let listener = listener.try_clone();
        std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_io().build().expect("a runtime");
            let local = tokio::task::LocalSet::new();
            let serves = serve(at, listener.expect("a listener"), senders, hasher, asked);
            runtime.block_on(local.run_until(serves)).expect("it serves");
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().expect("no panic");
    }
    Ok(())
}

/// One of the threads: its clients and its half of the keys.
async fn serve(
    at: usize,
    listener: std::net::TcpListener,
    senders: Vec<mpsc::UnboundedSender<Asked>>,
    hasher: Arc<RandomState>,
    mut asked: mpsc::UnboundedReceiver<Asked>,
) -> std::io::Result<()> {
    let part = std::rc::Rc::new(std::cell::RefCell::new(Part::default()));
    let own = part.clone();
    tokio::task::spawn_local(async move {
        while let Some((request, reply)) = asked.recv().await {
            let _ = reply.send(request.run(&mut own.borrow_mut()));
        }
    });
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        let (senders, hasher, part) = (senders.clone(), hasher.clone(), part.clone());
        tokio::task::spawn_local(client(stream, async move |request: Request| {
            let owner = number(&hasher, &request) as usize % senders.len();
            if owner == at {
                return Some(request.run(&mut part.borrow_mut()));
            }
            let (reply, answer) = oneshot::channel();
            senders[owner].send((request, reply)).ok()?;
            answer.await.ok()
        }));
    }
}

async fn client(mut stream: TcpStream, run: impl AsyncFn(Request) -> Option<Answer>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let (mut bytes, mut out) = (Vec::with_capacity(4096), Vec::with_capacity(4096));
    while stream.read_buf(&mut bytes).await.ok()? > 0 {
        let mut taken = 0;
        while let Some((request, length)) = parse(&bytes[taken..]).ok()? {
            taken += length;
            let answered = match request {
                Some(request) => Some(run(request).await?),
                None => None,
            };
            answer(answered, &mut out);
        }
        bytes.drain(..taken);
        stream.write_all(&out).await.ok()?;
        out.clear();
    }
    Some(())
}
