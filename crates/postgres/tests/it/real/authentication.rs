//! Passwords.

use phalanx_postgres::Error;

use super::{execute, number, run, shared_server};

#[test]
fn users_authenticate_by_password() {
    let Some(shared) = shared_server() else { return };
    let config = || shared.clone().database("postgres");
    for (method, encryption) in [("scram", "scram-sha-256"), ("md5", "md5"), ("password", "md5")] {
        run(config(), move |database| async move {
            execute(database, &format!("SET password_encryption = '{encryption}'")).await.unwrap();
            let create = format!("CREATE USER {method} PASSWORD 'päss word'");
            execute(database, &create).await.unwrap();
        });
        let user = config().user(method).password("päss word");
        run(user, |database| async move {
            assert_eq!(number(database, "SELECT 1::int8").await, 1);
        });
        let wrong = [config().user(method).password("wrong"), config().user(method)];
        for config in wrong {
            let error =
                run(
                    config,
                    |database| async move { execute(database, "SELECT 1").await.unwrap_err() },
                );
            assert!(matches!(error, Error::Unavailable { .. }), "{error}");
            assert!(error.to_string().contains("password"), "{error}");
        }
    }
}

#[test]
fn a_missing_database_fails_at_once() {
    let Some(config) = shared_server() else { return };
    let error = run(config.database("nowhere"), |database| async move {
        execute(database, "SELECT 1").await.unwrap_err()
    });
    assert!(error.to_string().contains("\"nowhere\" does not exist"), "{error}");
}
