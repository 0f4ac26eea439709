//! The arms on tokio.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use socket2::{Domain, Socket, Type};
use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio_postgres::{Client, NoTls, Statement};

use crate::app::{self, INSERT, Order, Orders, SELECT};
use crate::{Outcome, announce};

/// Connections of the work-stealing runtime's pool.
const POOL: usize = 32;

/// A connection with its prepared statements.
struct Connection {
    client: Client,
    select: Statement,
    insert: Statement,
}

/// A pool, whose connections have one query each at a time.
#[derive(Clone)]
struct Pool(Arc<(Semaphore, Mutex<Vec<Arc<Connection>>>)>);

/// A connection that pipelines the queries of all requests.
#[derive(Clone)]
struct Pipelined(Arc<Connection>);

/// The work-stealing runtime.
pub(crate) fn axum_serve(processors: usize, socket: Option<&Path>) -> Outcome {
    let runtime = Builder::new_multi_thread().worker_threads(processors).enable_all().build()?;
    runtime.block_on(async {
        let app = match socket {
            None => app::plain(),
            Some(socket) => app::with(Pool::open(socket).await?),
        };
        serve(listen(None)?, app, true).await
    })
}

/// A single-threaded runtime for each core.
pub(crate) fn cores(processors: usize, socket: Option<&Path>) -> Outcome {
    let first = listen(None)?;
    let address = first.local_addr()?;
    let others = (1..processors).map(|_| listen(Some(address))).collect::<Result<Vec<_>, _>>()?;
    let socket = socket.map(Path::to_owned);
    let each = |listener, announces, socket: Option<&Path>| -> Outcome {
        Builder::new_current_thread().enable_all().build()?.block_on(async {
            let app = match socket {
                None => app::plain(),
                Some(socket) => app::with(Pipelined(Arc::new(Connection::open(socket).await?))),
            };
            serve(listener, app, announces).await
        })
    };
    for listener in others {
        let socket = socket.clone();
        std::thread::spawn(move || {
            if let Err(error) = each(listener, false, socket.as_deref()) {
                eprintln!("a core does not serve: {error}");
                std::process::exit(1);
            }
        });
    }
    each(first, true, socket.as_deref())
}

async fn serve(listener: TcpListener, app: Router, announces: bool) -> Outcome {
    let address = listener.local_addr()?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    if announces {
        announce(address);
    }
    // As `phalanx-axum` and TechEmpower's entry set it.
    let listener =
        axum::serve::ListenerExt::tap_io(listener, |stream| _ = stream.set_nodelay(true));
    axum::serve(listener, app).await?;
    Ok(())
}

/// A listener that shares its port with others.
fn listen(address: Option<SocketAddr>) -> std::io::Result<TcpListener> {
    let address = address.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    Ok(socket.into())
}

impl Connection {
    async fn open(socket: &Path) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let folder = socket.parent().and_then(Path::to_str).ok_or("the folder is not text")?;
        let parameters = format!("host={folder} port=5432 user=postgres");
        let (client, connection) = tokio_postgres::connect(&parameters, NoTls).await?;
        tokio::spawn(connection);
        let (select, insert) = (client.prepare(SELECT).await?, client.prepare(INSERT).await?);
        Ok(Self { client, select, insert })
    }

    async fn find(&self, id: i64) -> Result<Order, String> {
        let row = self.client.query_one(&self.select, &[&id]).await;
        let row = row.map_err(|error| error.to_string())?;
        Ok(Order { id: row.get(0), customer: row.get(1), cents: row.get(2) })
    }

    async fn place(&self, customer: &str, cents: i64) -> Result<i64, String> {
        let row = self.client.query_one(&self.insert, &[&customer, &cents]).await;
        Ok(row.map_err(|error| error.to_string())?.get(0))
    }
}

impl Pool {
    async fn open(socket: &Path) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let mut connections = Vec::new();
        for _ in 0..POOL {
            connections.push(Arc::new(Connection::open(socket).await?));
        }
        Ok(Self(Arc::new((Semaphore::new(POOL), Mutex::new(connections)))))
    }

    /// Runs `query` with a free connection.
    async fn with<T>(&self, query: impl AsyncFnOnce(&Connection) -> T) -> T {
        let (free, connections) = &*self.0;
        let _permit = free.acquire().await.expect("never closed");
        let taken = Taken::new(connections);
        query(&taken.connection).await
    }
}

/// A connection that is in use. It returns to the pool also if the request ends early, because its client has left.
struct Taken<'p> {
    connection: Arc<Connection>,
    connections: &'p Mutex<Vec<Arc<Connection>>>,
}

impl<'p> Taken<'p> {
    fn new(connections: &'p Mutex<Vec<Arc<Connection>>>) -> Self {
        let mut free = connections.lock().unwrap_or_else(PoisonError::into_inner);
        let connection = free.pop().expect("one for each permit");
        Self { connection, connections }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut free = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(self.connection.clone());
    }
}

impl Orders for Pool {
    async fn find(&self, id: i64) -> Result<Order, String> {
        self.with(async |connection| connection.find(id).await).await
    }

    async fn place(&self, customer: &str, cents: i64) -> Result<i64, String> {
        self.with(async |connection| connection.place(customer, cents).await).await
    }
}

impl Orders for Pipelined {
    async fn find(&self, id: i64) -> Result<Order, String> {
        self.0.find(id).await
    }

    async fn place(&self, customer: &str, cents: i64) -> Result<i64, String> {
        self.0.place(customer, cents).await
    }
}
