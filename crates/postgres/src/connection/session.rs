//! A connection that is ready for queries: takes batches of the queue, one after the other.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use phalanx::select;
use phalanx::shutdown::{draining, is_draining};
use postgres_protocol::message::frontend;

use super::exchange::Exchange;
use super::link::Link;
use super::prepared::{Prepared, Preparing, error_of, unexpected};
use super::startup;
use crate::error::{Error, Fault};
use crate::pool::Pool;
use crate::queue::Pending;

/// The limit on waiting for the server's last messages after a failed write.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A connection that is ready for queries.
pub(crate) struct Session {
    pool: Rc<Pool>,
    link: Link,
    prepared: Prepared,
    /// Messages to send before the next batch. Their answers need no handling.
    before: BytesMut,
}

impl Session {
    /// Connects and authenticates.
    pub(crate) async fn open(pool: &Rc<Pool>) -> Result<Self, Fault> {
        let limit = pool.config.connect_timeout;
        let opened = phalanx::timeout(limit, async {
            let link = Link::open(&pool.config, pool.stage).await?;
            startup::authenticate(&link, &pool.config).await?;
            Ok::<_, Fault>(link)
        });
        let link = opened.await.map_err(|_| Fault::TimedOut(limit))??;
        let (prepared, before) = (Prepared::default(), BytesMut::new());
        Ok(Self { pool: pool.clone(), link, prepared, before })
    }

    /// Serves queries until the connection or the program ends.
    ///
    /// # Errors
    /// How the connection ended, if it has not served a single batch.
    pub(crate) async fn run(mut self) -> Result<(), Fault> {
        let mut is_proven = false;
        loop {
            match self.serve_batch().await {
                Ok(true) => {
                    self.pool.proven();
                    is_proven = true;
                }
                Ok(false) => return Ok(()),
                Err(_) if is_proven => return Ok(()),
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Waits for queries and serves a batch of them. Returns false if the program drains and nothing waits.
    async fn serve_batch(&mut self) -> Result<bool, Fault> {
        if !self.wait_for_queries().await? {
            return Ok(false);
        }
        let batch = self.pool.queue.borrow_mut().take(self.pool.config.max_batch);
        self.exchange(batch).await?;
        Ok(true)
    }

    /// Returns false if the program drains and nothing waits.
    async fn wait_for_queries(&mut self) -> Result<bool, Fault> {
        let pool = self.pool.clone();
        loop {
            self.link.process(|frame| match frame.tag {
                b'E' => error_of(frame).map(drop),
                _ => Err(unexpected(frame)),
            })?;
            self.link.check()?;
            if !pool.queue.borrow().is_empty() {
                return Ok(true);
            }
            if is_draining() {
                let mut goodbye = BytesMut::new();
                frontend::terminate(&mut goodbye);
                let _ = self.link.send(goodbye).await;
                return Ok(false);
            }
            let _idle = pool.idle(self.link.signal());
            select(self.link.signal().notified(), draining()).await;
        }
    }

    /// Sends a batch and handles its answers. All of its queries are answered or back in the queue then.
    async fn exchange(&mut self, batch: VecDeque<Pending>) -> Result<(), Fault> {
        let mut batch = batch;
        if let Err(fault) = self.prepare(&mut batch).await {
            let unsent = batch.into_iter().collect();
            self.pool.queue.borrow_mut().put_back(unsent);
            return Err(fault);
        }
        let mut exchange = Exchange::new(batch, self.pool.config.max_result_bytes);
        let mut message = std::mem::take(&mut self.before);
        exchange.encode(&mut message);
        let exchanged = self.converse(message, &mut exchange).await;
        let repeat = match &exchanged {
            Ok(()) => exchange.finish(),
            Err(fault) => exchange.abandon(fault),
        };
        self.pool.queue.borrow_mut().put_back(repeat);
        exchanged
    }

    async fn converse(&mut self, message: BytesMut, exchange: &mut Exchange) -> Result<(), Fault> {
        if exchange.is_over() {
            self.before = message;
            return Ok(());
        }
        let limit = match self.link.send(message).await {
            Ok(()) => self.pool.config.query_timeout,
            // The server has probably said why it ended the connection.
            Err(_) => LAST_WORDS,
        };
        loop {
            self.link.process(|frame| exchange.handle(frame, &mut self.prepared))?;
            if exchange.is_over() {
                return Ok(());
            }
            self.link.wait(limit).await?;
        }
    }

    /// Prepares the statements of a batch. Answers queries whose statement the server rejects.
    async fn prepare(&mut self, batch: &mut VecDeque<Pending>) -> Result<(), Fault> {
        let statements = batch.iter().map(|pending| &pending.query.statement);
        let missing = self.prepared.missing(statements);
        if missing.is_empty() {
            return Ok(());
        }
        let mut message = BytesMut::new();
        for statement in &missing {
            let encoded = statement.prepare(&mut message);
            // The text was encoded before, by the caller.
            encoded.map_err(|error| Fault::Protocol(error.to_string()))?;
        }
        self.link.send(message).await?;
        let mut preparing = Preparing::default();
        while preparing.results.len() < missing.len() {
            self.link.process(|frame| preparing.handle(frame))?;
            if preparing.results.len() < missing.len() {
                self.link.wait(self.pool.config.query_timeout).await?;
            }
        }
        for (statement, result) in missing.iter().zip(preparing.results) {
            match result {
                Ok(columns) => self.prepared.add(statement, columns, &mut self.before),
                Err(error) => {
                    let uses = |pending: &Pending| pending.query.statement.id() == statement.id();
                    let (failed, rest): (Vec<_>, Vec<_>) =
                        std::mem::take(batch).into_iter().partition(uses);
                    *batch = rest.into();
                    for pending in failed {
                        pending.reply.send(Err(Error::Database(error.clone())));
                    }
                }
            }
        }
        Ok(())
    }
}
