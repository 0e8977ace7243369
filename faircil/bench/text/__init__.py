"""What a large text encoder costs: training, the weights of an epoch, embeddings; on made texts."""
