//! The arms on tokio-postgres.

use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio_postgres::{Client, NoTls, Statement};

use crate::load::{Load, Scene};

type Failed = Box<dyn Error + Send + Sync>;

const THREADS: usize = 2;
const POOL: usize = 32;

/// A connection with the prepared statement of the scene.
struct Connection {
    client: Client,
    statement: Statement,
}

impl Connection {
    async fn open(load: &Load) -> Result<Self, Failed> {
        let folder = load.socket.parent().and_then(Path::to_str).ok_or("the folder is not text")?;
        let parameters = format!("host={folder} port=5432 user=postgres");
        let (client, connection) = tokio_postgres::connect(&parameters, NoTls).await?;
        tokio::spawn(connection);
        let statement = client.prepare(load.scene.sql()).await?;
        Ok(Self { client, statement })
    }

    async fn query(&self, load: &Load) -> Result<bool, Failed> {
        let key = load.key();
        match load.scene {
            Scene::Insert => {
                let row = self.client.query_one(&self.statement, &[&"customer", &key]).await?;
                assert!(row.get::<_, i64>(0) > 0);
            }
            Scene::Select => {
                let row = self.client.query_one(&self.statement, &[&key]).await?;
                assert!(row.get::<_, i64>(2) == key && !row.get::<_, &str>(1).is_empty());
            }
        }
        Ok(load.finish())
    }
}

/// A pool of 32 connections on the work-stealing runtime.
pub(crate) fn pool(load: Arc<Load>) -> Result<(), Failed> {
    let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    runtime.block_on(async move {
        let mut connections = Vec::new();
        for _ in 0..POOL {
            connections.push(Connection::open(&load).await?);
        }
        let pool = Arc::new((Semaphore::new(POOL), Mutex::new(connections)));
        let callers: Vec<_> = (0..load.callers)
            .map(|_| {
                let (load, pool) = (load.clone(), pool.clone());
                tokio::spawn(async move {
                    loop {
                        let _permit = pool.0.acquire().await?;
                        let connection = pool.1.lock().expect("no panic").pop();
                        let connection = connection.ok_or("one for each permit")?;
                        let continues = connection.query(&load).await?;
                        pool.1.lock().expect("no panic").push(connection);
                        if !continues {
                            return Ok::<(), Failed>(());
                        }
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await??;
        }
        Ok(())
    })
}

/// Two single-threaded runtimes with one connection each.
pub(crate) fn pipelined(load: Arc<Load>) -> Result<(), Failed> {
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let load = load.clone();
            thread::spawn(move || pipeline(load))
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    Ok(())
}

fn pipeline(load: Arc<Load>) -> Result<(), Failed> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let connection = Arc::new(Connection::open(&load).await?);
        let callers: Vec<_> = (0..load.callers / THREADS)
            .map(|_| {
                let (load, connection) = (load.clone(), connection.clone());
                tokio::spawn(async move {
                    while connection.query(&load).await? {}
                    Ok::<(), Failed>(())
                })
            })
            .collect();
        for caller in callers {
            caller.await??;
        }
        Ok(())
    })
}
