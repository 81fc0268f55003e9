echo $\
(id)