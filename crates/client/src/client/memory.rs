//! The calls of the daemon's MemoryService.

use capataz_contracts::v1;
use capataz_contracts::v1::memory_service_client::MemoryServiceClient;

use super::{Client, repeated};
use crate::ClientError;

impl Client {
    /// What a session remembers, newest first.
    ///
    /// # Errors
    /// The request breaks a rule, or the daemon is not reached.
    pub async fn search_memory(
        &self,
        request: v1::SearchMemoryRequest,
    ) -> Result<v1::SearchMemoryResponse, ClientError> {
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut memory = MemoryServiceClient::new(channel.clone());
            async move { memory.search_memory(request).await }
        })
        .await
    }

    /// One entry of memory.
    ///
    /// # Errors
    /// There is no such entry, or the daemon is not reached.
    pub async fn get_memory_entry(
        &self,
        request: v1::GetMemoryEntryRequest,
    ) -> Result<v1::GetMemoryEntryResponse, ClientError> {
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut memory = MemoryServiceClient::new(channel.clone());
            async move { memory.get_memory_entry(request).await }
        })
        .await
    }

    /// Has entries of a session forgotten. A repeated call changes nothing.
    ///
    /// # Errors
    /// The session has no such entry, or the daemon is not reached: they may be forgotten then.
    pub async fn forget_memory(
        &self,
        request: v1::ForgetMemoryRequest,
    ) -> Result<v1::ForgetMemoryResponse, ClientError> {
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut memory = MemoryServiceClient::new(channel.clone());
            async move { memory.forget_memory(request).await }
        })
        .await
    }
}
