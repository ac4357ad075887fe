"""The latent diffusion model: autoencoder, network, training, checkpoints and sampling. Needs the extra `decode`."""
