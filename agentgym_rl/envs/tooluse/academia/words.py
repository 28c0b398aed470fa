"""What invented papers are made of."""

from __future__ import annotations

from agentgym_rl.envs.tooluse.names import split

QUALITIES = split(
    """
    Adaptive Approximate Asynchronous Bayesian Causal Compact Contrastive Convex Decentralized Differentiable
    Distributed Efficient Equivariant Explainable Fast Federated Geometric Hierarchical Incremental Interactive
    Interpretable Iterative Lightweight Modular Multimodal Online Parallel Private Probabilistic Provable Robust
    Scalable Semantic Sequential Sparse Stochastic Structured Temporal Unsupervised Verified
    """
)
METHODS = split(
    """
    attention networks; automata; boosting; branch and bound; clustering; constraint solving; data augmentation;
    decision trees; diffusion models; dynamic programming; embeddings; ensembles; evolutionary search; factor
    graphs; formal verification; game theory; graph rewriting; hashing; indexing; kernel methods; knowledge graphs;
    language models; message passing; meta-learning; metric learning; model checking; optimal transport; planning;
    program synthesis; quantization; query rewriting; random forests; reinforcement learning; sampling; simulation;
    sketching; spectral methods; theorem proving; transfer learning; tree search; type inference; variational
    inference
    """,
    ";",
)
TASKS = split(
    """
    anomaly detection; bus scheduling; cache management; code review; crop monitoring; crowd counting; data
    cleaning; dialogue systems; drone navigation; drug discovery; eye tracking; fault diagnosis; flood prediction;
    fraud detection; gait analysis; hospital logistics; image retrieval; indoor localization; intrusion detection;
    legal search; load balancing; machine translation; malware analysis; map matching; music transcription; network
    routing; object tracking; outage prediction; parking guidance; power grids; protein folding; recommender
    systems; robot grasping; satellite imagery; sign language; smart contracts; speech recognition; storage systems;
    table understanding; time series; traffic forecasting; tutoring systems; video summarization; warehouse
    automation; weather nowcasting
    """,
    ";",
)
PATTERNS = (
    "{quality} {method} for {task}",
    "{quality} {task} with {method}",
    "Towards {quality} {method} in {task}",
    "On {quality} {method} for {task}",
    "A Survey of {quality} {method} for {task}",
)

VENUES = split(
    """
    Journal of Applied Computation; Journal of Learning Machines; Journal of Network Design; Letters in Data
    Science; Transactions on Robust Systems; Transactions on Human Interfaces; Annals of Algorithms; Review of
    Computing Practice; Conference on Data Engines; Conference on Neural Methods; Conference on Secure Software;
    Conference on Urban Computing; Symposium on Graph Theory; Symposium on Program Logic; Symposium on Visual
    Analysis; Workshop on Edge Devices; Workshop on Language Tools; Workshop on Open Robotics; Congress on
    Simulation; Congress on Signal Processing
    """,
    ";",
)
"""Journals first, then conferences."""

JOURNALS = VENUES[:8]

ORGANIZATIONS = tuple(
    pattern.format(name)
    for name in split(
        """
        Ardenholm; Brackwater; Castrel; Dunmarrow; Eastmere; Fallowfield; Garrisonne; Hollenbeck; Invermoor; Jasperton;
        Kestrel Bay; Lindenau; Marlowe; Northgate; Orrinsburg; Pellworth; Quillan; Rosendahl; Stellenmark; Tannersford
        """,
        ";",
    )
    for pattern in ("University of {}", "{} Institute of Technology", "{} Research Laboratory")
)
