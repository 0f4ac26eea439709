//! A scripted PostgreSQL server with the table of orders. It breaks where a seed demands it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use phalanx::net::{IoTimeout, Stream};
use phalanx_testkit::postgres::messages::{put, put_error, put_welcome, take};

use crate::orders::{FIND, INSERT, Order};

/// How many of a thousand messages break the server.
const FAULTS: u32 = 15;

/// The committed rows.
#[derive(Default)]
pub(super) struct Table {
    pub(super) rows: HashMap<i64, Order>,
    last_id: i64,
}

pub(super) struct Server {
    pub(super) table: Mutex<Table>,
    rng: Mutex<Rng>,
}

/// The server ends the connection.
struct Ended;

/// State of a connection.
#[derive(Default)]
struct Session {
    has_started: bool,
    /// Statements by name.
    prepared: HashMap<String, String>,
    /// The statement that was bound last, and its parameters.
    bound: (String, Vec<Vec<u8>>),
    /// Rows of the current transaction.
    inserted: Vec<(i64, Order)>,
    has_failed: bool,
}

impl Server {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self { table: Mutex::default(), rng: Mutex::new(Rng::with_seed(seed)) })
    }

    pub(super) async fn serve(&self, stream: Stream) {
        let (mut input, mut output, mut session) = (Vec::new(), Vec::new(), Session::default());
        while let Ok(1..) = stream.read(&mut input, IoTimeout::NONE).await {
            let mut ended = false;
            while !ended && let Some((tag, body)) = take(&mut input, &mut session.has_started) {
                ended = self.handle(tag, &body, &mut session, &mut output).is_err();
            }
            let sent = stream.write(std::mem::take(&mut output), IoTimeout::NONE).await;
            if ended || sent.is_err() {
                return;
            }
        }
    }

    /// A fault of a thousand messages: the connection ends.
    fn may_break(&self) -> Result<(), Ended> {
        if self.rng.lock().unwrap().u32(..1000) < FAULTS { Err(Ended) } else { Ok(()) }
    }

    fn handle(
        &self,
        tag: u8,
        body: &[u8],
        session: &mut Session,
        output: &mut Vec<u8>,
    ) -> Result<(), Ended> {
        match tag {
            0 => put_welcome(output),
            b'S' => {
                self.may_break()?;
                let inserted = std::mem::take(&mut session.inserted);
                if !std::mem::take(&mut session.has_failed) {
                    self.table.lock().unwrap().rows.extend(inserted);
                }
                self.may_break()?;
                put(output, b'Z', b"I");
            }
            b'X' => return Err(Ended),
            _ if session.has_failed => {}
            b'C' => put(output, b'3', b""),
            b'P' => {
                let mut texts = body.split(|byte| *byte == 0).map(String::from_utf8_lossy);
                let mut next = || texts.next().expect("a name and a statement").into_owned();
                session.prepared.insert(next(), next());
                put(output, b'1', b"");
            }
            b'D' => {
                let name = text(&body[1..]);
                put(output, b't', b"\0\0");
                put(output, b'T', &columns(&session.prepared[&name]));
            }
            b'B' => {
                session.bound = bound(body);
                put(output, b'2', b"");
            }
            b'E' => self.execute(session, output)?,
            _ => panic!("the client sent a message {:?}", tag as char),
        }
        Ok(())
    }

    fn execute(&self, session: &mut Session, output: &mut Vec<u8>) -> Result<(), Ended> {
        self.may_break()?;
        let (name, parameters) = &session.bound;
        if session.prepared[name] == INSERT {
            let customer = String::from_utf8(parameters[0].clone()).expect("UTF-8");
            let order = Order { customer, cents: number(&parameters[1]) };
            if order.cents <= 0 {
                session.has_failed = true;
                put_error(output, "ERROR", "23514");
                return Ok(());
            }
            let mut table = self.table.lock().unwrap();
            table.last_id += 1;
            session.inserted.push((table.last_id, order));
            put(output, b'D', &row(&[&table.last_id.to_be_bytes()]));
            put(output, b'C', b"INSERT 0 1\0");
        } else {
            let id = number(&parameters[0]);
            let table = self.table.lock().unwrap();
            let own = session.inserted.iter().find(|(key, _)| *key == id).map(|(_, order)| order);
            if let Some(Order { customer, cents }) = table.rows.get(&id).or(own) {
                put(output, b'D', &row(&[customer.as_bytes(), &cents.to_be_bytes()]));
            }
            put(output, b'C', b"SELECT 1\0");
        }
        Ok(())
    }
}

/// The text up to a zero byte.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).expect("a zero byte");
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn number(bytes: &[u8]) -> i64 {
    i64::from_be_bytes(bytes.try_into().expect("eight bytes"))
}

/// The name of a statement and its parameters, all in the binary format.
fn bound(body: &[u8]) -> (String, Vec<Vec<u8>>) {
    let portal = text(body).len() + 1;
    let name = text(&body[portal..]);
    let mut rest = &body[portal + name.len() + 1..];
    let short = |rest: &mut &[u8]| {
        let (number, after) = rest.split_first_chunk().expect("two bytes");
        *rest = after;
        usize::from(u16::from_be_bytes(*number))
    };
    let formats = short(&mut rest);
    rest = &rest[2 * formats..];
    let count = short(&mut rest);
    let mut parameters = Vec::new();
    for _ in 0..count {
        let (length, after) = rest.split_first_chunk().expect("four bytes");
        let (value, after) = after.split_at(u32::from_be_bytes(*length) as usize);
        parameters.push(value.to_vec());
        rest = after;
    }
    (name, parameters)
}

/// The description of a statement's columns: `text` has the number 25, `int8` the number 20.
fn columns(statement: &str) -> Vec<u8> {
    let columns: &[(&str, u32)] = match statement {
        INSERT => &[("id", 20)],
        FIND => &[("customer", 25), ("cents", 20)],
        other => panic!("a statement {other:?}"),
    };
    let mut body = (columns.len() as u16).to_be_bytes().to_vec();
    for (name, kind) in columns {
        body.extend(name.as_bytes());
        body.extend([0; 7]);
        body.extend(kind.to_be_bytes());
        body.extend([0, 8, 0xff, 0xff, 0xff, 0xff, 0, 1]);
    }
    body
}

fn row(values: &[&[u8]]) -> Vec<u8> {
    let mut body = (values.len() as u16).to_be_bytes().to_vec();
    for value in values {
        body.extend((value.len() as u32).to_be_bytes());
        body.extend(*value);
    }
    body
}
