//! The account at the authority.

use instant_acme::{Account, AccountCredentials, ExternalAccountKey, NewAccount};
use serde::{Deserialize, Serialize};

use crate::order::OrderError;
use crate::plan::Plan;
use crate::storage::Storage;
use crate::transport::{Transport, complete};

/// The account as stored.
#[derive(Deserialize, Serialize)]
struct StoredAccount {
    contact: Vec<String>,
    credentials: AccountCredentials,
}

/// The account of a plan.
#[derive(Default)]
pub(crate) struct PlanAccount {
    account: Option<Account>,
    /// An account that could not be stored yet. It is kept in memory, because authorities limit the number of new
    /// accounts.
    unsaved: Option<StoredAccount>,
}

impl PlanAccount {
    /// Opens the stored account or creates one, and updates its contacts to those of the plan.
    pub(crate) fn open(
        &mut self,
        plan: &Plan,
        storage: &Storage,
        transport: &Transport,
    ) -> Result<&Account, OrderError> {
        let account = match self.account.take() {
            Some(account) => account,
            None => self.load(plan, storage, transport)?,
        };
        let account = self.account.insert(account);
        if let Some(stored) = &self.unsaved {
            storage.save_account(stored)?;
            self.unsaved = None;
        }
        Ok(account)
    }

    /// Removes an account that the authority does not know.
    pub(crate) fn forget(&mut self, storage: &Storage) {
        storage.remove_account();
        *self = Self::default();
    }

    fn load(
        &mut self,
        plan: &Plan,
        storage: &Storage,
        transport: &Transport,
    ) -> Result<Account, OrderError> {
        let builder = Account::builder_with_http(Box::new(transport.clone()));
        let contact: Vec<_> = plan.contact.iter().map(String::as_str).collect();
        if let Some(stored) = storage.load_account::<StoredAccount>()? {
            let credentials = serde_json::to_value(&stored.credentials);
            let account = complete(builder.from_credentials(stored.credentials))?;
            if stored.contact != plan.contact
                && let Ok(Ok(credentials)) = credentials.map(serde_json::from_value)
            {
                complete(account.update_contacts(&contact))?;
                self.unsaved = Some(StoredAccount { contact: plan.contact.clone(), credentials });
            }
            return Ok(account);
        }
        let external = plan.external.as_ref().map(|external| {
            let key = external.read()?;
            Ok::<_, String>(ExternalAccountKey::new(external.id.clone(), &key))
        });
        let external = external.transpose()?;
        let new = NewAccount {
            contact: &contact,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let result = builder.create(&new, plan.directory.clone(), external.as_ref());
        let (account, credentials) = complete(result)?;
        self.unsaved = Some(StoredAccount { contact: plan.contact.clone(), credentials });
        Ok(account)
    }
}
