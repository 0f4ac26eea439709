//! Libraries that need tokio's reactor, within handlers of a server on Phalanx: reqwest, redis, sqlx and tonic.

#[allow(dead_code, reason = "the tests of the crate use the rest")]
#[path = "../../../../crates/axum/tests/it/harness.rs"]
mod harness;

use axum::Router;
use axum::routing::get;
use phalanx_testkit::postgres::PostgresServer;
use phalanx_testkit::process::{self, Process};
use phalanx_testkit::{eventually, within_limit};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::runtime::{Builder, Runtime};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use harness::served_with;

/// A runtime of tokio with one thread.
fn side() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn a_handler_requests_another_server_with_reqwest() {
    within_limit(|| {
        let side = side();
        let handle = side.handle().clone();
        let back = Router::new().route("/price", get(|| async { "26.5" }));
        let back = served_with(back, |server| server.processors(1));
        let url = format!("http://{}/price", back.address);
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let front = Router::new().route(
            "/",
            get(|| async move { client.get(url).send().await.unwrap().text().await.unwrap() }),
        );
        let front = served_with(front, |server| server.processors(2).side_runtime(handle));
        for _ in 0..10 {
            assert!(front.get("/").ends_with("\r\n\r\n26.5"));
        }
    });
}

#[test]
fn a_handler_counts_in_redis() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("redis.sock");
    let mut command = process::clean("redis-server");
    command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket);
    if std::process::Command::new("redis-server").arg("--version").output().is_err() {
        println!("skipped: redis-server is not installed (Debian: apt-get install redis-server)");
        return;
    }
    within_limit(move || {
        let _redis = Process::start(command);
        eventually("redis listens", || socket.exists().then_some(()));
        let side = side();
        let handle = side.handle().clone();
        let client = redis::Client::open(format!("unix://{}", socket.display())).unwrap();
        let connection = side.block_on(client.get_multiplexed_async_connection()).unwrap();
        let count = async |mut connection: redis::aio::MultiplexedConnection| {
            let count: u64 =
                redis::cmd("INCR").arg("hits").query_async(&mut connection).await.unwrap();
            count.to_string()
        };
        let app = Router::new().route("/", get(move || count(connection.clone())));
        let server = served_with(app, |server| server.processors(2).side_runtime(handle));
        for hits in 1..=10 {
            assert!(server.get("/").ends_with(&format!("\r\n\r\n{hits}")));
        }
    });
}

#[test]
fn a_handler_counts_in_postgresql_with_sqlx() {
    let Some(database) = PostgresServer::start(&[]).unwrap() else {
        return println!(
            "skipped: PostgreSQL is not installed (Debian: apt-get install postgresql)"
        );
    };
    within_limit(move || {
        let side = side();
        let handle = side.handle().clone();
        let socket = database.socket();
        let options = PgConnectOptions::new_without_pgpass()
            .socket(socket.parent().unwrap())
            .username("postgres")
            .database("postgres");
        // More requests than connections.
        let pool = PgPoolOptions::new().max_connections(2).connect_with(options);
        let pool = side.block_on(pool).unwrap();
        let create = sqlx::query("CREATE SEQUENCE hits").execute(&pool);
        side.block_on(create).unwrap();
        let count = move || async move {
            let next = sqlx::query_scalar::<_, i64>("SELECT nextval('hits')");
            next.fetch_one(&pool).await.unwrap().to_string()
        };
        let app = Router::new().route("/", get(count));
        let server = served_with(app, |server| server.processors(2).side_runtime(handle));
        std::thread::scope(|scope| {
            let ask = || assert!(server.get("/").starts_with("HTTP/1.1 200 "));
            (0..8).for_each(|_| drop(scope.spawn(ask)));
        });
        assert!(server.get("/").ends_with("\r\n\r\n9"));
    });
}

#[test]
fn tonic_serves_through_its_routes() {
    within_limit(|| {
        // Only the client uses tokio's runtime.
        let side = side();
        let (reporter, health) = tonic_health::server::health_reporter();
        side.block_on(reporter.set_service_status("store", tonic_health::ServingStatus::Serving));
        let app = tonic::service::Routes::new(health).into_axum_router();
        let server = served_with(app, |server| server.processors(2));
        let uri = format!("http://{}", server.address);
        side.block_on(async {
            let channel = tonic::transport::Channel::from_shared(uri).unwrap().connect().await;
            let mut client = HealthClient::new(channel.unwrap());
            let store = HealthCheckRequest { service: "store".into() };
            let answer = client.check(store.clone()).await.unwrap().into_inner();
            assert_eq!(answer.status(), ServingStatus::Serving);
            let unknown = HealthCheckRequest { service: "unknown".into() };
            assert_eq!(client.check(unknown).await.unwrap_err().code(), tonic::Code::NotFound);
            // A stream of responses: the status now, and each change.
            let mut changes = client.watch(store).await.unwrap().into_inner();
            let first = changes.message().await.unwrap().unwrap();
            assert_eq!(first.status(), ServingStatus::Serving);
            reporter.set_service_status("store", tonic_health::ServingStatus::NotServing).await;
            let second = changes.message().await.unwrap().unwrap();
            assert_eq!(second.status(), ServingStatus::NotServing);
        });
    });
}
